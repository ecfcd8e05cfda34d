"""What makes a line worth looking at when events are assembled.

All are filters over whole lines (`^` says where they stand in a body, but prefixes come before it): the assembly
decides what a line is.
"""

from __future__ import annotations

ANCHORS: tuple[str, ...] = (
    r"Traceback \(most recent call last\)",
    r"File \"[^\"\n]+\", line \d",
    r"[Uu]sage: [^\s\d]",
    r"[Ee]rror: |error while handling argument",
    r"\w(?:Error|Exception|Interrupt|Exit|Failure|Timeout|OutOfResources)(?:\(\w+\))?(?::|$)",
    r"ERROR|CRITICAL|FATAL",
    r"[Ff]atal (?:error|Python error)",
    r"\[[EF]\]",
    r"[EF]\d{3,4} \d\d:\d\d:\d\d\.",
    r"\d\.\d\d\.\d{3}\.\d{3} E ",
    r"CUDA (?:error|driver error|out of memory)",
    r"[Oo]ut [Oo]f [Mm]emory",
    r"NCCL (?:WARN|ERROR)",
    r"[Ss]eg(?:mentation |)fault",
    r"core dumped",
    r"\*\*\* SIG[A-Z]+",
    r"terminate called",
    r"what\(\): ",
    r"Killed",
    r"Aborted",
    r"Bus error",
    r"GGML_ASSERT|GGML_ABORT",
    r"Assertion .{1,200} failed",
    r"exited with code [1-9]",
    r"panic: ",
)
