"""The queue of batches: offered by successes and files, taken by attempts."""
