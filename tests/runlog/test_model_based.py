"""The model-based test, bounded; `python -m tests.runlog.model_based 100000` is the long one."""

from tests.runlog.model_based import take_steps


def test_the_log_agrees_with_the_oracle_after_every_step():
    take_steps(40, 40)
