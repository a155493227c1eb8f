"""The learning rules and what they share: NumPy and Numba only.

Where each equation of the paper is (numbers as counted in its LaTeX source):

    eq.   what                                      file: function
    1     whitening objective                       offline/objectives.py: whitening_objective
    2     nonnegative similarity matching           offline/objectives.py: nsm_objective
    3     Algorithm 1's objective                   offline/objectives.py
    4     Algorithm 2's objective                   offline/objectives.py
    5     L_1, min-max                              offline/objectives.py
    6     offline settling, Algorithm 1             offline/descent_ascent.py
    7, 8  W_xy, W_yn, offline                       offline/descent_ascent.py; online: networks/interneuron.py: learn
    9     online settling, Algorithm 1              networks/interneuron.py: settle; networks/settling/gradient.py
    10-12 L_2                                       offline/objectives.py
    13,14 W_xz, W_zz, offline                       offline/descent_ascent.py; online: networks/two_compartment.py: learn
    15    online settling, Algorithm 2              networks/two_compartment.py: settle; networks/settling/gradient.py
    22    eta_t                                     networks/schedules.py: learning_rates
"""

from . import (  # noqa: F401  (they register their rules)
    interneuron,
    natural_interneuron,
    natural_two_compartment,
    nonnegative_pca,
    two_compartment,
    two_layer_nsm,
)
