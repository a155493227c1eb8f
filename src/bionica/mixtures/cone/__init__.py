"""The minimum-volume cone around nonnegative data: sources that may be correlated.

Nonnegative ICA whitens, so it cannot return correlated sources. Sources that reach zero
show the facets of the cone of the data whatever their correlation, and spectra that are
nonnegative too bound it from outside.

objective.py  the volume of the cone between two walls, its gradient, its descent on
               samples near facets: (1), (2)
noise.py       noise of the mixtures, coordinates in units of it, and how hard the wall
               must be for it: (3) to (6)
fit.py         starts, rounds of wall and cone, the cone without noise, outliers: (7)
sketch.py     many samples in bounded memory: all rows in a few passes, a stream in one;
               scale of the outputs
count.py       the number of sources, by cones of halves of the samples

**Relatives.** MVSA (Li and Bioucas-Dias 2008) has a hard wall, SISAL (Bioucas-Dias
2009) a hinge with a weight that the user sets, MVES (Chan et al. 2009) alternates
linear programs. All three assume that sources sum to one. Minimum-volume NMF (Miao and
Qi 2007; Leplat, Ang and Gillis 2019) penalises the volume of the mixing matrix beside a
least-squares fit, with a weight that the user sets. Here sources need not sum to one,
and the noise sets the weight.

**When the sources are identified.** Each facet must be touched by samples in which all
other sources vary (sufficiently scattered: Fu, Huang, Sidiropoulos and Ma 2019), or be
fixed by channels in which spectra vanish. A sample of each source alone (a pure pixel)
is enough but not needed.
"""
