"""Offline methods: objectives, whitening, the rotation into the orthant, and the networks on all the data at once."""
