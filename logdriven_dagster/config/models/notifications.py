"""Who is notified of what: `recipients` of a project, `notify` of tables and jobs.

Source: Sharp ETL, `notify` of a workflow: type, recipients and condition.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from importlib.util import find_spec
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator, Field

from logdriven_dagster.config.models.fields import Model, StepName
from logdriven_dagster.config.secrets import has_reference, names_secret
from logdriven_dagster.config.yaml.documents import Document, Location
from logdriven_dagster.errors import ConfigError

Occasion = Literal["failure", "recovery", "success", "always"]
"""`failure`: a window or a run of a job fails that did not fail before. `recovery`: it succeeds
after that. `success`: each time. `always`: each success and each failure.

Source: Sharp ETL, NotifyTriggerCondition; `recovery` is ours.
"""

_SECRET_HEADERS = ("authorization", "cookie", "x-auth")


def _listed(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


Address = Annotated[str, Field(min_length=1, pattern=r"^[^\x00-\x1f\x7f]+$")]


class EmailRecipient(Model):
    """People who get mail, through an SMTP server."""

    type: Literal["email"]
    server: str = Field(
        pattern=r"^[^\s:/@]+(:\d+)?$",
        description="host or host:port",
        examples=["mail.example.com:587"],
    )
    security: Literal["starttls", "tls", "none"] = Field(
        "starttls", description="starttls: port 587; tls from the start: 465; none: 25"
    )
    user: str | None = Field(None, description="who logs in", examples=["etl"])
    password: str | None = Field(
        None, description="the password, from a variable", examples=["${env:MAIL_PASSWORD}"]
    )
    sender: Address = Field(
        alias="from", description="the address of the sender", examples=["etl@example.com"]
    )
    to: Annotated[
        tuple[Address, ...],
        BeforeValidator(_listed, json_schema_input_type=str | tuple[str, ...]),
    ] = Field(min_length=1, description="who gets it", examples=["ops@example.com"])


class SlackRecipient(Model):
    """A channel of Slack, or of a chat that takes what Slack's incoming webhooks take."""

    type: Literal["slack"]
    url: str = Field(
        description="the address of an incoming webhook, from a variable",
        examples=["${env:SLACK_URL}"],
    )


class WebhookRecipient(Model):
    """A program that gets JSON in a POST."""

    type: Literal["webhook"]
    url: str = Field(description="where it is sent to", examples=["https://example.com/hooks/etl"])
    headers: dict[str, str] = Field(
        default_factory=dict,
        description="headers of the request",
        examples=[{"Authorization": "${env:HOOK_TOKEN}"}],
    )


class AppriseRecipient(Model):
    """Any other service that the library Apprise knows."""

    type: Literal["apprise"]
    url: str = Field(description="an Apprise URL, from a variable", examples=["${env:TEAMS_URL}"])


Recipient: TypeAlias = EmailRecipient | SlackRecipient | WebhookRecipient | AppriseRecipient
RecipientField = Annotated[Recipient, Field(discriminator="type")]


class NotifyRule(Model):
    """A rule of `notify`: who is notified, on which occasions."""

    to: Annotated[
        tuple[StepName, ...],
        BeforeValidator(_listed, json_schema_input_type=StepName | tuple[StepName, ...]),
    ] = Field(min_length=1, description="names of recipients", examples=["ops"])
    on: Annotated[
        tuple[Occasion, ...],
        BeforeValidator(_listed, json_schema_input_type=Occasion | tuple[Occasion, ...]),
    ] = Field(
        ("failure", "recovery"),
        min_length=1,
        description="when: failure, it fails and did not before; recovery, it succeeds after that; "
        "success, each time; always, each success and each failure",
        examples=["failure"],
    )


def unknown_recipients(
    document: Document, place: Location, rules: Sequence[NotifyRule], known: Iterable[str]
) -> Iterator[ConfigError]:
    """Names in the rules of a document that are no recipients of the project.

    Rules that came from the project's defaults are not in the document and are no mistake of it.
    """
    names = list(known)
    for n, rule in enumerate(rules):
        where = (*place, n, "to")
        for name in rule.to:
            if name not in names and where in document.lines:
                near = get_close_matches(name, names, n=1)
                hint = f"did you mean {near[0]!r}?" if near else "add it to logdriven.yaml"
                yield document.error(where, f"unknown recipient {name!r}", hint)


def broken_recipients(
    document: Document, recipients: Mapping[str, Recipient]
) -> Iterator[ConfigError]:
    """Services whose library is not installed."""
    for name, recipient in recipients.items():
        if isinstance(recipient, AppriseRecipient) and find_spec("apprise") is None:
            fix = "pip install 'logdriven_dagster[notify]'"
            place = ("recipients", name, "type")
            yield document.error(place, "apprise is not installed", fix)


def recipient_secrets(recipients: Mapping[str, Recipient]) -> Iterator[tuple[Location, str]]:
    """Return the fields of recipients that hold secrets in plain text, by their meaning."""
    for name, recipient in recipients.items():
        for field, text in _secret_fields(recipient):
            if text and not has_reference(text):
                yield ("recipients", name, *field), text


def _secret_fields(recipient: Recipient) -> Iterator[tuple[tuple[str, ...], str | None]]:
    match recipient:
        case EmailRecipient(password=password):
            yield ("password",), password
        case SlackRecipient(url=url) | AppriseRecipient(url=url):
            # The whole address is the secret: whoever knows it can post.
            yield ("url",), url
        case WebhookRecipient(headers=headers):
            for key, value in headers.items():
                if _names_secret(key):
                    yield ("headers", key), value


def _names_secret(header: str) -> bool:
    return header.lower().startswith(_SECRET_HEADERS) or names_secret(header)
