"""How an engine says that a network diverged: always as this exception, never as a number that a caller could ignore."""


class Diverged(ArithmeticError):
    """An output left the range of its dtype at the row `sample` of a block."""

    def __init__(self, sample: int):
        super().__init__(f"an output left the range of its dtype at row {sample}")
        self.sample = sample
