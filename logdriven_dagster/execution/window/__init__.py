"""The execution of windows, one or several in a pass: claim, stage, check, publish, finish."""
