"""The kernel's own log, record by record as the device hands it out."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.supervise.kernellog import Record, kernel_records, record_of


def test_a_record_has_time_severity_and_text() -> None:
    # Recorded; the lines that begin with a blank are details of the record.
    data = b"3,1234,98765432,-;NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n SUBSYSTEM=pci\n"
    assert record_of(data) == Record(98.765432, 3, "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.")


def test_the_facility_is_no_part_of_the_severity() -> None:
    found = record_of(b"30,5,1000000,-;systemd[1]: started\n")
    assert found is not None
    assert found.severity == 6


@pytest.mark.parametrize("data", [b"", b"no record", b"x,y,z,-;text", b"3,1;text"])
def test_what_is_no_record_is_left_out(data: bytes) -> None:
    assert record_of(data) is None


def test_a_log_that_may_not_be_read_is_unknown(tmp_path: Path) -> None:
    assert kernel_records(device=tmp_path / "none") is None
