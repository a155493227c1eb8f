"""The offline side: objectives, the rotation into the orthant, the networks on all the data at once."""
