"""How neurons settle: exactly, by the paper's gradient iteration, or by pivoting."""
