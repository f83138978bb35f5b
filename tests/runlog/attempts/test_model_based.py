"""The model-based test, bounded; `tests.runlog.attempts.model_based` is the long one."""

from tests.random_examples import examples
from tests.runlog.attempts.model_based import take_steps


def test_the_log_agrees_with_the_oracle_after_every_step():
    take_steps(examples(40), 40)
