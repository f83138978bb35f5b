"""REST catalogs of Iceberg, which do not wait for ever for an answer."""

from typing import Any

from pyiceberg.catalog.rest import RestCatalog
from requests import PreparedRequest, Response, Session
from requests.adapters import HTTPAdapter

_PATIENCE_SECONDS = (10, 60)
"""To connect, and for each part of an answer."""


class PatientRestCatalog(RestCatalog):
    """A REST catalog that gives up on a server which does not answer; PyIceberg's own waits."""

    def _create_session(self) -> Session:
        session = super()._create_session()
        for scheme, adapter in list(session.adapters.items()):
            if type(adapter) is HTTPAdapter:  # not one that signs requests
                session.mount(scheme, _PatientAdapter())
        return session


class _PatientAdapter(HTTPAdapter):
    def send(self, request: PreparedRequest, *args: Any, **options: Any) -> Response:
        options["timeout"] = options.get("timeout") or _PATIENCE_SECONDS
        return super().send(request, *args, **options)
