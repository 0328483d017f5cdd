"""Short names for the hosts of the demo's own sites; nobody remembers port numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class Names:
    """Names of hosts; those without one are called what they are."""

    hosts: Mapping[str, str] = field(default_factory=dict)
    """Short name by host."""

    def host(self, host: str) -> str:
        """A host as the demo calls it."""
        return self.hosts.get(host, host)

    def page(self, url: str) -> str:
        """An address with its host as the demo calls it, such as ``shop/product/3``."""
        host = urlsplit(url).netloc
        return self.hosts[host] + url.split(host, 1)[1] if host in self.hosts else url
