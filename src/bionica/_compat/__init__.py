"""Private names of the libraries that bionica uses, one module for each library."""
