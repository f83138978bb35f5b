"""Error messages of databases, without the text that their drivers add."""


def get_driver_message(error: BaseException | None) -> str:
    """Return the first line of a driver's exception, or an empty string for None.

    Drivers for MariaDB put a number before the message, psycopg puts advice after it.
    """
    if error is None:
        return ""
    numbered = len(error.args) == 2 and isinstance(error.args[0], int)
    return str(error.args[1] if numbered else error).strip().partition("\n")[0]
