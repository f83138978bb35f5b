"""Detection of secrets in plain text: by their place, their kind, and entropy.

By place: the password in a URL or after `password=`, a URL parameter named as a secret, the
password of `jdbc:oracle:thin:user/password@`, and options of commands such as `mysql -p`. By kind:
private keys, and tokens that providers mark by a prefix or a form. By entropy: a value that is a
single random word. Percent-encoded texts are decoded first. A reference (`${env:NAME}`) is not a
secret in plain text.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from urllib.parse import unquote_plus

from logdriven_dagster.config.secrets import find_passwords, has_reference, names_secret

KINDS: dict[str, str] = {
    "private key": r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END|\Z)",
    "JSON Web Token": r"\beyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]{8,}",
    "age": r"\bAGE-SECRET-KEY-1[A-Z0-9]{58}\b",
    "Airtable": r"\bpat[A-Za-z0-9]{14}\.[0-9a-f]{64}\b",
    "Anthropic or OpenAI": r"\bsk-(?:ant-|proj-)?[\w-]{20,}",
    "Atlassian": r"\bATATT3[\w=-]{20,}",
    "AWS session": r"\bFwoGZXIvYXdz[\w+/=]{20,}",
    "Azure Storage": r"\bAccountKey=[A-Za-z0-9+/]{20,}={0,2}",
    "Azure Service Bus": r"\bSharedAccessKey=[A-Za-z0-9+/]{20,}={0,2}",
    "Azure Entra": r"\b[A-Za-z0-9_~.-]{3}8Q~[A-Za-z0-9_~.-]{31,34}",
    "Databricks": r"\bdapi[0-9a-f]{32}(?:-\d)?\b",
    "DigitalOcean": r"\bdo[opr]_v1_[0-9a-f]{32,}",
    "Discord": r"\bdiscord(?:app)?\.com/api/webhooks/\d+/[\w-]{20,}",
    "Doppler": r"\bdp\.(?:ct|pt|st|sa|scim|audit)\.(?:[\w-]+\.)?[A-Za-z0-9]{40,44}\b",
    "Dropbox": r"\bsl\.[\w-]{40,}",
    "Dynatrace": r"\bdt0[a-z]\d\d\.[A-Za-z0-9]{24}\.[A-Za-z0-9]{64}\b",
    "GitHub": r"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,})",
    "GitLab": r"\bgl(?:pat|dt|rt|ptt)-[\w-]{16,}",
    "Grafana": r"\bgl(?:sa|c)_[\w+/=]{20,}",
    "Google": r"\b(?:AIza[\w-]{30,}|ya29\.[\w-]{16,}|GOCSPX-[\w-]{16,})",
    "Hugging Face": r"\bhf_[A-Za-z0-9]{20,}",
    "Linear": r"\blin_(?:api|oauth)_[A-Za-z0-9]{32,}",
    "Mailgun": r"\bkey-[0-9a-f]{32}\b",
    "Mapbox": r"\bsk\.eyJ[\w-]{20,}\.[\w-]{20,}",
    "Mattermost": r"/hooks/[a-z0-9]{26}\b",
    "Microsoft Teams": r"\bwebhook\.office\.com/webhookb2/[\w@-]+/\w+/[\w/-]{16,}",
    "New Relic": r"\bNRAK-[A-Z0-9]{27}\b",
    "npm": r"\bnpm_[A-Za-z0-9]{20,}",
    "Opsgenie": r"\bGenieKey +[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b",
    "PyPI": r"\bpypi-[\w-]{32,}",
    "SendGrid": r"\bSG\.[\w-]{16,}\.[\w-]{16,}",
    "Shopify": r"\bshp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}\b",
    "Slack": r"\b(?:xox[abeoprs]-[\w-]{10,}|hooks\.slack\.com/(?:services|workflows)/[\w/]{16,})",
    "Stripe": r"\b[rs]k_(?:live|test)_[A-Za-z0-9]{16,}",
    "Telegram": r"\b\d{8,12}:AA[\w-]{30,}",
    "Terraform": r"\b[A-Za-z0-9]{14}\.atlasv1\.[\w-]{60,}",
    "Twilio": r"\bSK[0-9a-f]{32}\b",
    "Vault": r"\bhv[sbr]\.[\w-]{20,}",
}
"""Pattern of each provider's secrets."""

_KIND = re.compile("|".join(f"(?:{pattern})" for pattern in KINDS.values()), re.DOTALL)
_PARAMETER = re.compile(r"(?:^|[?&;#])([\w.$-]{1,60})=([^&;#\s\"']+)")
_OF_URLS = re.compile(r"sig|signature|sas|apikey|auth|key|code|jwt|hmac", re.IGNORECASE)
"""Names of parameters that hold secrets in URLs, but have other uses elsewhere."""
_ORACLE = re.compile(r"\bjdbc:oracle:\w+:[^\s/:@\"']+/([^\s@\"']+)@")
_ARGUMENT = r"['\"]?(?![$<{*%])([^\s'\"]+)"
"""A secret in a command; a variable or a placeholder is none."""
_OPTION = r"--(?:password|passwd|passphrase|pwd|token|secret|api-?key)"
_COMMANDS = re.compile(
    rf"\b(?:mysql|mariadb)[\w-]*\s(?:[^\n|;]{{0,300}}?\s)?['\"]?-p{_ARGUMENT}"
    rf"|\bsshpass\s+-p\s*{_ARGUMENT}"
    r"|\bcurl\s(?:[^\n|;]{0,300}?\s)?(?:-u|-U|--user|--proxy-user)[ =]?"
    rf"['\"]?[^\s:'\"]*:{_ARGUMENT}"
    rf"|\bAuthorization: *(?:Bearer|Basic|Token|ApiKey) +{_ARGUMENT}"
    rf"|\bredis-cli\s(?:[^\n|;]{{0,300}}?\s)?(?:-a|--pass)\s+{_ARGUMENT}"
    rf"|\bsqlplus\s(?:-\S+\s+)*[^\s/@-][^\s/@]*/(?![$<{{*%])([^\s@]+)@"
    rf"|\b(?:sqlcmd|bcp)\s(?:[^\n|;]{{0,300}}?\s)?-P\s*{_ARGUMENT}"
    rf"|\bdocker\s+login\s(?:[^\n|;]{{0,300}}?\s)?-p\s*{_ARGUMENT}"
    rf"|\bopenssl\s[^\n|;]{{0,300}}?\spass:{_ARGUMENT}"
    rf"|\baws\s+configure\s+set\s+\S*(?:secret|token)\S*\s+{_ARGUMENT}"
    rf"|\b(?:PGPASSWORD|MYSQL_PWD|SSHPASS|REDISCLI_AUTH|AWS_SECRET_ACCESS_KEY)={_ARGUMENT}"
    rf"|(?:\A|[;&`]\s*|/\*\s*|--\s+|\b(?:export|env|set)\s+)"
    rf"[A-Z][A-Z0-9_]*(?:PASSWORD|PASSWD|PWD|TOKEN|SECRET|API_?KEY)={_ARGUMENT}"
    rf"|(?<=\s){_OPTION}={_ARGUMENT}|(?<=\s){_OPTION}\s+(?=\S*[^A-Za-z\s]){_ARGUMENT}"
    r"|(?i:\b(?:password|passwd|pwd|identified\s+by)\s+'(?![$<{*%])([^'\s]+)'"
    r"|'[\w.-]*(?:password|passwd|pwd)'\s*=?\s*'(?![$<{*%])([^'\s]+)')"
)
"""Commands and SQL clauses with a secret, in their own options or variables."""
_NOT_SECRET = re.compile(r"\d{0,8}|true|false|none|null|yes|no", re.IGNORECASE)
_AUTHORIZATION = re.compile(r"(?:Bearer|Basic|Token|ApiKey)\s+([\w.~+/=-]{8,})", re.IGNORECASE)
_USER = re.compile(r"://([^/@:?#]+)@")
_SEGMENT = re.compile(r"(?<=/)[^/?#]+")
_WORD = re.compile(r"[A-Za-z0-9+/_~-]{20,}={0,2}")
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_CLASSES = {"[a-z]": "a", "[A-Z]": "A", "[0-9]": "0"}


def find_secrets(text: str) -> list[str]:
    """Return the plain-text secrets in the value of an option, or in a URL."""
    decoded = unquote_plus(text)
    forms = [text] if decoded == text else [text, decoded, unquote_plus(decoded)]
    found = [
        secret
        for form in forms
        for secret in (*find_marked_secrets(form), *_find_unmarked_secrets(form))
    ]
    return list(dict.fromkeys(secret for secret in found if not has_reference(secret)))


def find_marked_secrets(text: str) -> Iterator[str]:
    """Yield secrets that do not occur by chance in queries or prose: of URLs, commands, kinds."""
    yield from (match[0] for match in _KIND.finditer(text))
    yield from (match[1] for match in _ORACLE.finditer(text))
    yield from (match[match.lastindex or 0] for match in _COMMANDS.finditer(text))
    if "://" in text or text.startswith("jdbc:"):
        yield from find_passwords(text)
        yield from _list_parameters(text)


def _find_unmarked_secrets(text: str) -> Iterator[str]:
    yield from find_passwords(text)
    if authorization := _AUTHORIZATION.fullmatch(text.strip()):
        yield authorization[1]
    if "sig=" in text.lower():
        yield from _list_parameters(text)
    words = [text.strip()]
    if re.match(r"https?://", text):
        words = _SEGMENT.findall(text.partition("://")[2].partition("?")[0])
        words += _USER.findall(text)
    elif text.startswith("/"):
        words = re.split(r"[/_-]", text)
    yield from filter(_is_random, words)


def _list_parameters(text: str) -> Iterator[str]:
    for name, value in _PARAMETER.findall(text):
        is_named = names_secret(name) or (_OF_URLS.fullmatch(name) and len(value) >= _SHORTEST)
        if (is_named and not _NOT_SECRET.fullmatch(value)) or _is_random(value):
            yield value


_SHORTEST = 6
"""Minimum length of a secret in a URL's `key` or `code`; shorter values are names."""


def _is_random(word: str) -> bool:
    """Return True if a word has the entropy and character mix of a generated secret."""
    if not _WORD.fullmatch(word) or _UUID.fullmatch(word) or not re.search(r"[0-9]", word):
        return False
    entropy = -sum(n / len(word) * math.log2(n / len(word)) for n in Counter(word).values())
    is_hexadecimal = re.fullmatch(r"[0-9a-f]{32,}|[0-9A-F]{32,}", word) is not None
    if not is_hexadecimal and not (re.search("[a-z]", word) and re.search("[A-Z]", word)):
        return False
    shape = word
    for characters, name in _CLASSES.items():
        shape = re.sub(characters, name, shape)
    changes = sum(one != other for one, other in pairwise(shape))
    return entropy > 3 and changes > 0.35 * len(word)
