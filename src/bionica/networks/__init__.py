"""One network, one file: its equations, its learning rule, its estimator.

Where each equation of the paper is. Numbers as counted in its LaTeX source; files relative to the package.

    1       whitening objective                 offline/objectives.py: whitening_objective, whitening_excess
    2       nonnegative similarity matching     offline/objectives.py: nsm_objective
    3       Algorithm 1's objective             offline/objectives.py: whitening_objective, with Y >= 0
    4       Algorithm 2's objective             offline/objectives.py: combined_nsm_objective
    5       L_1, its min-max problem            offline/objectives.py: interneuron_objective
    6       settling of Algorithm 1, offline    offline/descent_ascent.py: write_outputs, with its fixed point
    7, 8    W_xy, W_yn, offline                 offline/descent_ascent.py: offline_interneuron
            W_xy, W_ny, W_yn, online            networks/interneuron.py: learn
    9       settling of Algorithm 1, online     networks/interneuron.py: settle; kernels/settling.py: iterate
    10      objective 4, expanded               offline/objectives.py: combined_nsm_objective, with its constant
    11, 12  L_2, in two orders of min and max   offline/objectives.py: two_compartment_objective
    13, 14  W_xz, W_zz, offline                 offline/descent_ascent.py: offline_two_compartment
            W_xz, W_zz, online                  networks/two_compartment.py: learn
    15      settling of Algorithm 2, online     networks/two_compartment.py: settle; kernels/settling.py: iterate
    22      eta_t                               kernels/schedules.py: Schedule

By default activities are computed exactly (kernels/settling.py: settle_exactly). The iterations of eqs. 6, 9 and 15 run with
``dynamics="gradient"``.
"""
