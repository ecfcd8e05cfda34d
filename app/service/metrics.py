"""What /metrics tells: read from the store at the moment of asking, so that restarts lose nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from app import __version__
from app.core.vocabulary import IncidentStatus, ServerState

if TYPE_CHECKING:
    from app.service.serve import Service

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics(Collector):
    """Servers, incidents, attempts, rules and loops as Prometheus reads them."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    def render(self) -> bytes:
        """The whole answer."""
        return generate_latest(self._registry)

    def describe(self) -> list[Metric]:
        """Nothing beforehand: what there is is known when asked."""
        return []

    def collect(self) -> Iterator[Metric]:
        """All metrics, read now."""
        yield from self._about_us()
        yield from self._servers()
        yield from self._history()

    def _about_us(self) -> Iterator[Metric]:
        service = self._service
        build = GaugeMetricFamily("crashcart_build_info", "The version, always 1.", labels=["version"])
        build.add_metric([__version__], 1)
        yield build
        up = (datetime.now(UTC) - service.started_at).total_seconds()
        yield GaugeMetricFamily("crashcart_uptime_seconds", "How long the service runs.", up)
        rules = service.rulebook.rules
        yield GaugeMetricFamily("crashcart_rules", "Rules in use.", len(rules.rules))
        yield GaugeMetricFamily("crashcart_rules_skipped", "Rule files that are wrong.", len(rules.problems))
        yield GaugeMetricFamily("crashcart_loops_failing", "Loops that do not run now.", len(service.failing))

    def _servers(self) -> Iterator[Metric]:
        state = GaugeMetricFamily(
            "crashcart_server_state", "1 for the state a server is in.", labels=["server", "state"]
        )
        ready = GaugeMetricFamily("crashcart_server_ready", "Whether a server is ready.", labels=["server"])
        progress = GaugeMetricFamily("crashcart_server_loading_percent", "How far it has loaded.", labels=["server"])
        degraded = GaugeMetricFamily(
            "crashcart_server_degraded", "What a fix has cost it, as long as nobody acknowledged.", labels=["server"]
        )
        for server in self._service.store.list_servers():
            for one in ServerState:
                state.add_metric([server.name, one.value], float(server.state is one))
            ready.add_metric([server.name], float(server.state is ServerState.READY))
            if server.progress is not None and server.progress.percent is not None:
                progress.add_metric([server.name], server.progress.percent)
            unseen = [one for one in self._service.store.missing(server.name) if not one.acknowledged]
            degraded.add_metric([server.name], len(unseen))
        yield from (state, ready, progress, degraded)

    def _history(self) -> Iterator[Metric]:
        counted = self._service.store.counts()
        incidents = GaugeMetricFamily("crashcart_incidents", "Incidents kept, by status.", labels=["status"])
        for status in IncidentStatus:
            incidents.add_metric([status.value], counted.incidents.get(status.value, 0))
        attempts = GaugeMetricFamily("crashcart_attempts", "Restarts and relaunches kept.", labels=["kind", "outcome"])
        for (kind, outcome), number in sorted(Counter(counted.attempts).items()):
            attempts.add_metric([kind, outcome], number)
        alerts = GaugeMetricFamily("crashcart_alerts", "Messages to people, by status.", labels=["status"])
        for status_text, number in sorted(counted.alerts.items()):
            alerts.add_metric([status_text], number)
        transitions = CounterMetricFamily("crashcart_transitions", "Lines of the history ever written.")
        transitions.add_metric([], counted.transitions)
        yield from (incidents, attempts, alerts, transitions)
