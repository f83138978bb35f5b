"""REST catalogs of Iceberg with time limits on requests."""

from typing import Any

from pyiceberg.catalog.rest import RestCatalog
from requests import PreparedRequest, Response, Session
from requests.adapters import HTTPAdapter

_PATIENCE_SECONDS = (10, 60)
"""Seconds to connect, and to wait for each part of an answer."""


class PatientRestCatalog(RestCatalog):
    """A REST catalog with time limits for a server that does not answer; PyIceberg has none."""

    def _create_session(self) -> Session:
        session = super()._create_session()
        for scheme, adapter in list(session.adapters.items()):
            if type(adapter) is HTTPAdapter:  # not an adapter that signs requests
                session.mount(scheme, _PatientAdapter())
        return session


class _PatientAdapter(HTTPAdapter):
    def send(self, request: PreparedRequest, *args: Any, **options: Any) -> Response:
        options["timeout"] = options.get("timeout") or _PATIENCE_SECONDS
        return super().send(request, *args, **options)
