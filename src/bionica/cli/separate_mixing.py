"""The spectra of the sources, for --mixing and the report: the columns of `mixing_`, and what the mixtures are called."""

from typing import TYPE_CHECKING, Any

from .console import Console
from .separate_options import Options
from .separate_sentences import samples_until_start

if TYPE_CHECKING:
    from ..io import Reader


def write_mixing(o: Options, console: Console, network: Any, reader: "Reader") -> None:
    """Write one row for each source and one column for each mixture, in the unit of the mixtures.

    Row i times the values of source i is what this source adds to the mixtures.
    """
    import numpy as np

    from .. import io

    assert o.mixing is not None
    if samples_until_start(network):
        console.note(f"{o.mixing} was not written: the network has not started, so there are no spectra yet")
        return
    spectra = np.ascontiguousarray(np.asarray(network.mixing_).T)
    io.write_spectra(o.mixing, spectra, reader.names, decimal=o.decimal)


def axis_title(reader: "Reader") -> str:
    """Return what stands below the axis of the mixtures in the report."""
    if axis_values(reader) is None:
        return "number of the mixture"
    return (
        f"wavelength or channel ({reader.wavelength_unit})" if reader.wavelength_unit else "wavelength or channel, as in the header"
    )


def axis_values(reader: "Reader") -> list[float] | None:
    """Return the numbers in the header of the mixtures (wavelengths, masses, energies), if they rise or fall."""
    values = reader.wavelengths
    return None if values is None else list(map(float, values))
