"""Texts as every database can store them."""


def stored(text: str, length: int) -> str:
    """No NUL, no half characters, cut to a length with a note."""
    note = " … (cut)"
    text = text.replace("\0", "").encode("utf-8", "replace").decode("utf-8")
    return text if len(text) <= length else text[: length - len(note)] + note
