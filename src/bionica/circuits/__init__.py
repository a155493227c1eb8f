"""Models of neurons, to study: the networks of the paper, and what is compared with them."""
