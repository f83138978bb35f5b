"""Senders for each kind of recipient. They raise any error that prevents delivery.

Mail uses the standard library and JSON uses requests, since both need features that Apprise hides:
the same Message-ID when a message is sent again, and events as data. Apprise supports all other
services.
"""

import logging
import ssl
from collections.abc import Mapping
from email.message import EmailMessage
from email.utils import formatdate
from smtplib import SMTP, SMTP_SSL
from typing import Any
from urllib.parse import urlsplit

from logdriven_dagster.config.models.notifications import (
    AppriseRecipient,
    EmailRecipient,
    Recipient,
    SlackRecipient,
    WebhookRecipient,
)
from logdriven_dagster.config.secrets import remember, resolve
from logdriven_dagster.errors import UsageError
from logdriven_dagster.execution.notifications.messages import Message

_SECONDS = 5.0
"""The maximum time for a server's response."""
_SECRET_LENGTH = 12
"""Shorter paths and queries of URLs are words, not secrets."""
_PORTS = {"starttls": 587, "tls": 465, "none": 25}


class NotReachedError(Exception):
    """The service responded that it did not accept the message."""


def send(recipient: Recipient, message: Message) -> None:
    """Send a message. Raises any error that prevents it; the error may contain secrets."""
    match recipient:
        case EmailRecipient():
            _send_mail(recipient, message)
        case SlackRecipient(url=url):
            _post(_secret_url(url), message.as_slack(), {})
        case WebhookRecipient(url=url, headers=headers):
            resolved = {name: resolve(value, name) for name, value in headers.items()}
            _post(_secret_url(url), message.as_json(), resolved)
        case AppriseRecipient(url=url):
            _send_apprise(_secret_url(url), message)


def _send_mail(recipient: EmailRecipient, message: Message) -> None:
    host, _, port = recipient.server.partition(":")
    number = int(port) if port else _PORTS[recipient.security]
    password = resolve(recipient.password, "password") if recipient.password else ""
    trusted = ssl.create_default_context()
    server = (
        SMTP_SSL(host, number, timeout=_SECONDS, context=trusted)
        if recipient.security == "tls"
        else SMTP(host, number, timeout=_SECONDS)
    )
    with server:
        if recipient.security == "starttls":
            server.starttls(context=trusted)
        if recipient.user:
            server.login(resolve(recipient.user), password)
        refused = server.send_message(_mail(recipient, message))
    if refused:
        raise NotReachedError(f"the server refused {', '.join(refused)}")


def _mail(recipient: EmailRecipient, message: Message) -> EmailMessage:
    mail = EmailMessage()
    mail["From"] = recipient.sender
    mail["To"] = ", ".join(recipient.to)
    mail["Subject"] = one_line(message.title)
    mail["Date"] = formatdate(localtime=True)
    # Mail programs show a repeated message only once.
    mail["Message-ID"] = f"<{message.digest}@logdriven>"
    mail["Auto-Submitted"] = "auto-generated"
    mail.set_content(message.as_text())
    mail.add_alternative(message.as_html(), subtype="html")
    for attached in message.files:
        mail.add_attachment(
            attached.content, maintype="text", subtype=attached.subtype, filename=attached.name
        )
    return mail


def one_line(text: str) -> str:
    """Return the text without line breaks and other control characters, which end a header."""
    shown = "".join(each if each.isprintable() else " " for each in text)
    return " ".join(shown.split())


def _post(url: str, content: Mapping[str, Any], headers: Mapping[str, str]) -> None:
    import requests

    answer = requests.post(
        url, json=content, headers=dict(headers), timeout=_SECONDS, allow_redirects=False
    )
    if not answer.ok or answer.is_redirect:
        raise NotReachedError(f"the server answered {answer.status_code}: {answer.text[:200]}")


def _send_apprise(url: str, message: Message) -> None:
    import apprise

    service = apprise.Apprise()
    if not service.add(url):
        raise UsageError("not an Apprise URL, such as ntfy://topic")
    with apprise.LogCapture(level=logging.WARNING) as said:  # type: ignore[no-untyped-call]
        reached = service.notify(
            title=one_line(message.title), body=message.as_text(), notify_type=message.severity
        )
        if not reached:
            raise NotReachedError(said.getvalue().strip() or "Apprise gave no reason")


def _secret_url(text: str) -> str:
    """Resolve the URL with its secrets, and redact its path and query, which errors quote alone."""
    url = resolve(text, "token")
    if url != text:
        for part in (urlsplit(url).path, urlsplit(url).query):
            remember(part if len(part) >= _SECRET_LENGTH else None)
    return url
