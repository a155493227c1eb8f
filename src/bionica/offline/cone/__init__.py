"""The minimum-volume cone around nonnegative data: sources that may be correlated.

Nonnegative ICA whitens, so it cannot return correlated sources. Sources that reach zero show the facets of the cone of the data
whatever their correlation. Let u be the data in coordinates in which the noise is white (`coordinates`), and y = V u the
outputs. The smallest cone {u : V u >= 0} that holds the data, with a wall at each facet that is as soft as the noise, maximises

    log|det V| - sum_i log(V_i u_bar) - 1/2 sum_i c_i <min(V_i u, 0)^2> / w_i^2                                           (1)

| file               | idea                                                                                   | equations |
|--------------------|----------------------------------------------------------------------------------------|-----------|
| objective.py       | (1), its gradient, and its minimisation by L-BFGS on the samples near the facets       | 1, 2      |
| leakage.py         | how hard the wall must be, and how large the noise is, from the samples near a facet   | 3, 4, 5   |
| channels.py        | scale of the mixtures, weights of Poisson counts, number of sources                    |           |
| channel_noise.py   | noise of each channel: factor analysis, residuals, Poisson counts                      | 6         |
| grid.py            | digitised sources: no noise where it cannot be told otherwise                          |           |
| wide_channels.py   | many channels: the leading subspace, without a k x k matrix                            |           |
| uncertain_noise.py | noise of channels that few left-out directions leave uncertain, from the tails           | 8         |
| coordinates.py     | the leading directions of the channels, in units of the noise                          |           |
| starts.py          | successive projection, and nonnegative ICA                                             |           |
| linear_programs.py | the cone without noise, exactly                                                        | 7         |
| fit.py             | the cone of an array in coordinates: starts, rounds, which start wins                  |           |
| mixtures.py        | the cone of channels: coordinates, outliers, cone, when nonnegative ICA is kept        |           |
| stream.py          | one pass in bounded memory                                                             |           |
| compare.py         | whether the cone of a stream is worse than one from a new start                        |           |
| kept_samples.py    | which samples of a stream are kept near the facets                                     |           |
| kept_facets.py     | the cone of the kept samples, from the last cone                                       |           |
| random_samples.py  | random samples of a stream, from which the cone can be solved afresh                   |           |
| extreme_samples.py | the outermost samples of a stream without noise                                        |           |
| readout.py         | matrices for mixtures, and the scale of the outputs                                    |           |

**Relatives.** MVSA (Li and Bioucas-Dias 2008) has a hard wall, SISAL (Bioucas-Dias 2009) a hinge with a weight that the user
sets, MVES (Chan et al. 2009) alternates linear programs. All three assume that sources sum to one. Minimum-volume NMF (Miao and
Qi 2007; Leplat, Ang and Gillis 2019) penalises the volume of the mixing matrix beside a least-squares fit, with a weight that
the user sets. Here sources need not sum to one, the wall is quadratic, so that Newton's matrix per facet preconditions L-BFGS
(4 to 10 iterations a stage), and the noise sets the weight. Sums to one need no special treatment: the second moment <u u'>
must have full rank, not the covariance.

**When the sources are identified.** The facets of the cone must be touched: each source is near zero for samples that span all
other sources in all directions (sufficiently scattered: Fu, Huang, Sidiropoulos and Ma 2019). A sample of each source alone (a
pure pixel) is enough but not needed. Sources with a constant background are not identified, with any correlation.
"""
