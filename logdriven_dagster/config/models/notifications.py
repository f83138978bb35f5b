"""Notification settings: `recipients` of a project, `notify` of tables and jobs.

Source: Sharp ETL, `notify` of a workflow: type, recipients and condition.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from importlib.util import find_spec
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator, Field

from logdriven_dagster.config.models.fields import StepName
from logdriven_dagster.config.models.frozen import Model
from logdriven_dagster.config.secrets import has_reference, names_secret
from logdriven_dagster.config.yaml.documents import Document, Location
from logdriven_dagster.errors import ConfigError

Occasion = Literal["failure", "recovery", "success", "always"]
"""Events that trigger a notification.

- `failure`: a window or job run fails that did not fail before
- `recovery`: it succeeds after a failure
- `success`: each success
- `always`: each success and each failure

Source: Sharp ETL, NotifyTriggerCondition; `recovery` is an addition.
"""

_SECRET_HEADERS = ("authorization", "cookie", "x-auth")


def _convert_to_tuple(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


Address = Annotated[str, Field(min_length=1, pattern=r"^[^\x00-\x1f\x7f]+$")]


class EmailRecipient(Model):
    """Email addresses, reached through an SMTP server."""

    type: Literal["email"]
    server: str = Field(
        pattern=r"^[^\s:/@]+(:\d+)?$",
        description="host or host:port",
        examples=["mail.example.com:587"],
    )
    security: Literal["starttls", "tls", "none"] = Field(
        "starttls", description="starttls: port 587; tls from the start: 465; none: 25"
    )
    user: str | None = Field(None, description="the user name", examples=["etl"])
    password: str | None = Field(
        None, description="the password, from a variable", examples=["${env:MAIL_PASSWORD}"]
    )
    sender: Address = Field(
        alias="from", description="the address of the sender", examples=["etl@example.com"]
    )
    to: Annotated[
        tuple[Address, ...],
        BeforeValidator(_convert_to_tuple, json_schema_input_type=str | tuple[str, ...]),
    ] = Field(min_length=1, description="the recipients", examples=["ops@example.com"])


class SlackRecipient(Model):
    """A Slack channel, or a chat that accepts the payload of Slack's incoming webhooks."""

    type: Literal["slack"]
    url: str = Field(
        description="the address of an incoming webhook, from a variable",
        examples=["${env:SLACK_URL}"],
    )


class WebhookRecipient(Model):
    """An HTTP endpoint that receives JSON in a POST request."""

    type: Literal["webhook"]
    url: str = Field(
        description="the address of the receiver", examples=["https://example.com/hooks/etl"]
    )
    headers: dict[str, str] = Field(
        default_factory=dict,
        description="headers of the request",
        examples=[{"Authorization": "${env:HOOK_TOKEN}"}],
    )


class AppriseRecipient(Model):
    """Any other service supported by the Apprise library."""

    type: Literal["apprise"]
    url: str = Field(description="an Apprise URL, from a variable", examples=["${env:TEAMS_URL}"])


Recipient: TypeAlias = EmailRecipient | SlackRecipient | WebhookRecipient | AppriseRecipient
RecipientField = Annotated[Recipient, Field(discriminator="type")]


class NotifyRule(Model):
    """A rule of `notify`: recipients, and the events that they are notified of."""

    to: Annotated[
        tuple[StepName, ...],
        BeforeValidator(_convert_to_tuple, json_schema_input_type=StepName | tuple[StepName, ...]),
    ] = Field(min_length=1, description="names of recipients", examples=["ops"])
    on: Annotated[
        tuple[Occasion, ...],
        BeforeValidator(_convert_to_tuple, json_schema_input_type=Occasion | tuple[Occasion, ...]),
    ] = Field(
        ("failure", "recovery"),
        min_length=1,
        description="the events: failure (the first one after a success, and source files that "
        "changed after their windows ran); recovery (the first "
        "success after a failure); success (each); always (each success and each "
        "failure)",
        examples=["failure"],
    )


def find_unknown_recipients(
    document: Document, place: Location, rules: Sequence[NotifyRule], known: Iterable[str]
) -> Iterator[ConfigError]:
    """Yield an error for each name in the notify rules that is not a recipient of the project.

    `place` is the location of `rules` in `document`, `known` are the recipients. Rules inherited
    from the project's defaults are not in `document` and are skipped here.
    """
    names = list(known)
    for n, rule in enumerate(rules):
        where = (*place, n, "to")
        for name in rule.to:
            if name not in names and where in document.lines:
                near = get_close_matches(name, names, n=1)
                hint = f"did you mean {near[0]!r}?" if near else "add it to logdriven.yaml"
                yield document.error(where, f"unknown recipient {name!r}", hint)


def find_broken_recipients(
    document: Document, recipients: Mapping[str, Recipient]
) -> Iterator[ConfigError]:
    """Yield an error for each recipient whose client library is not installed."""
    for name, recipient in recipients.items():
        if isinstance(recipient, AppriseRecipient) and find_spec("apprise") is None:
            fix = "pip install 'logdriven_dagster[notify]'"
            place = ("recipients", name, "type")
            yield document.error(place, "apprise is not installed", fix)


def list_recipient_secrets(recipients: Mapping[str, Recipient]) -> Iterator[tuple[Location, str]]:
    """Yield the location and text of each recipient field that holds a secret in plain text."""
    for name, recipient in recipients.items():
        for field, text in _list_secret_fields(recipient):
            if text and not has_reference(text):
                yield ("recipients", name, *field), text


def _list_secret_fields(recipient: Recipient) -> Iterator[tuple[tuple[str, ...], str | None]]:
    match recipient:
        case EmailRecipient(password=password):
            yield ("password",), password
        case SlackRecipient(url=url) | AppriseRecipient(url=url):
            # The whole URL is a secret: it grants permission to post.
            yield ("url",), url
        case WebhookRecipient(headers=headers):
            for key, value in headers.items():
                if _is_secret_header(key):
                    yield ("headers", key), value


def _is_secret_header(header: str) -> bool:
    return header.lower().startswith(_SECRET_HEADERS) or names_secret(header)
