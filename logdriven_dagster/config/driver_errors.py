"""What databases say when something is wrong, without what their drivers put around it."""


def driver_words(error: BaseException | None) -> str:
    """Return the first line of a driver's exception; empty without one.

    Drivers for MariaDB put a number before it, psycopg puts advice behind it.
    """
    if error is None:
        return ""
    numbered = len(error.args) == 2 and isinstance(error.args[0], int)
    return str(error.args[1] if numbered else error).strip().partition("\n")[0]
