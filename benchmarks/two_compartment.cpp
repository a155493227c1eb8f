// Algorithm 2 as a C++ programmer would write it: sizes known at compile time, block principal pivoting started from the
// last sample's firing set, a fresh Cholesky factorisation for every set it tries. No guards.
//
//     g++ -O3 -march=native -shared -fPIC two_compartment.cpp -o two_compartment.so

#include <algorithm>
#include <cmath>

template <int D>
struct Network {
    double W_xz[D][D], W_zz[D][D], x_bar[D], c_bar[D], c[D], z[D];
    bool firing[D];
    long t;

    // Solves W_zz z = c over the firing neurons.
    void solve() {
        int index[D], f = 0;
        for (int i = 0; i < D; ++i)
            if (firing[i]) index[f++] = i;
        double L[D][D], u[D];
        for (int a = 0; a < f; ++a) {
            for (int b = 0; b <= a; ++b) {
                double s = W_zz[index[a]][index[b]];
                for (int e = 0; e < b; ++e) s -= L[a][e] * L[b][e];
                L[a][b] = a == b ? std::sqrt(s) : s / L[b][b];
            }
            double s = c[index[a]];
            for (int e = 0; e < a; ++e) s -= L[a][e] * u[e];
            u[a] = s / L[a][a];
        }
        for (int i = 0; i < D; ++i) z[i] = 0;
        for (int a = f - 1; a >= 0; --a) {
            double s = u[a];
            for (int b = a + 1; b < f; ++b) s -= L[b][a] * u[b];
            u[a] = s / L[a][a];
            z[index[a]] = u[a];
        }
    }

    void settle() {
        int fewest = D + 1, patience = 3;
        for (int round = 0; round < 60 + 10 * D; ++round) {
            solve();
            bool bad[D];
            int violated = 0, last = 0;
            for (int i = 0; i < D; ++i) {
                if (firing[i]) {
                    bad[i] = z[i] < -1e-13;
                } else {
                    double s = -c[i];
                    for (int j = 0; j < D; ++j) s += W_zz[i][j] * z[j];
                    bad[i] = s < -1e-13;
                }
                if (bad[i]) ++violated, last = i;
            }
            if (violated == 0) break;
            patience = violated < fewest ? 3 : patience - 1;
            fewest = std::min(fewest, violated);
            if (patience >= 0) {
                for (int i = 0; i < D; ++i) firing[i] ^= bad[i];
            } else {
                firing[last] = !firing[last];
            }
        }
        for (int i = 0; i < D; ++i) z[i] = std::max(z[i], 0.0);
    }

    void learn(const double* x, double eta, double tau) {
        ++t;
        const double w = 1.0 / t;
        for (int j = 0; j < D; ++j) x_bar[j] += w * (x[j] - x_bar[j]);
        for (int i = 0; i < D; ++i) c_bar[i] += w * (c[i] - c_bar[i]);
        for (int i = 0; i < D; ++i)
            for (int j = 0; j < D; ++j)
                W_xz[i][j] += 2 * eta * (z[i] * x[j] - (c[i] - c_bar[i]) * (x[j] - x_bar[j]));
        for (int i = 0; i < D; ++i)
            for (int j = 0; j < D; ++j) W_zz[i][j] += eta / tau * (z[i] * z[j] - W_zz[i][j]);
    }
};

template <int D>
void run(const double* X, const double* rates, long n, double tau, double* W_xz, double* W_zz, double* Z) {
    Network<D> net{};
    std::copy(W_xz, W_xz + D * D, &net.W_xz[0][0]);
    std::copy(W_zz, W_zz + D * D, &net.W_zz[0][0]);
    for (long t = 0; t < n; ++t) {
        const double* x = X + t * D;
        for (int i = 0; i < D; ++i) {
            net.c[i] = 0;
            for (int j = 0; j < D; ++j) net.c[i] += net.W_xz[i][j] * x[j];
        }
        net.settle();
        std::copy(net.z, net.z + D, Z + t * D);
        net.learn(x, rates[t], tau);
    }
    std::copy(&net.W_xz[0][0], &net.W_xz[0][0] + D * D, W_xz);
    std::copy(&net.W_zz[0][0], &net.W_zz[0][0] + D * D, W_zz);
}

#define EXPORT(D)                                                                                                \
    extern "C" void run_##D(const double* X, const double* rates, long n, double tau, double* W_xz, double* W_zz, \
                            double* Z) {                                                                         \
        run<D>(X, rates, n, tau, W_xz, W_zz, Z);                                                                 \
    }
EXPORT(3)
EXPORT(10)
EXPORT(50)
EXPORT(200)
