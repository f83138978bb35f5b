"""One window, or several in one pass: claimed, staged, checked, published, finished."""
