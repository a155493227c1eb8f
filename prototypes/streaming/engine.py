"""The loop, and the stream as an object, for measurements."""
import numba, numpy as np
import rule
from rule import settle, learn, tend, CALL
def loop(state, work, params, X, start, learning, Y):
    d = work.y.shape[0]
    for t in range(start, X.shape[0]):
        settle(state, work, params, X, t)
        if Y.shape[0] > 0:
            for i in range(d):
                Y[t, i] = work.y[i]
        if learning:
            learn(state, work, params, X, t)
            if state.clock[CALL] != 0:
                return t + 1
    return X.shape[0]
_run = numba.njit(nogil=True, error_model="numpy", _nrt=False, cache=False, fastmath={"nsz", "contract", "reassoc"})(loop)
def run(state, params, X, Y):
    work = rule.workspace(state)
    t = 0
    while t < len(X):
        t = _run(state, work, params, X, t, True, Y)
        if state.clock[CALL]:
            tend(state, work, params)
class Stream:
    def __init__(self, d, horizon=0, seed=0, full=rule.FULL):
        self.d, self.params, self.seed, self.state, self.full = d, rule.Params(horizon), seed, None, full
    def partial_fit(self, X, outputs=False):
        if self.state is None:
            self.state = rule.init(self.d, X.shape[1], np.random.default_rng(self.seed), self.full)
        Y = np.empty((len(X) if outputs else 0, self.d))
        X = np.ascontiguousarray(X)
        run(self.state, self.params, X, Y)
        return Y if outputs else self
    @property
    def W(self): return rule.averaged(self.state)
    @property
    def V(self): return rule.unmixing(self.state)
