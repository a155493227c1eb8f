"""The only places that use private names of other libraries: one module per library, with the versions that were checked."""
