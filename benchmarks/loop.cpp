// Algorithm 2 for k = d = D mixtures, D known to the compiler, as one would write it for speed: what the compiled Python is compared with.
// g++ -O3 -march=native -ffast-math -shared -fPIC
#include <cmath>

// z >= 0, M z - c >= 0, z (M z - c) = 0: Cholesky on the firing neurons, all wrong signs exchanged at once.
template <int D> static void settle(const double (&M)[D][D], const double* c, double* z) {
    unsigned firing = (1u << D) - 1;
    for (int round = 0; round < 4 * D; round++) {
        double L[D][D], y[D];
        int p[D], n = 0;
        for (int i = 0; i < D; i++) if (firing >> i & 1) p[n++] = i;
        for (int i = 0; i < n; i++) {
            for (int j = 0; j <= i; j++) {
                double s = M[p[i]][p[j]];
                for (int l = 0; l < j; l++) s -= L[i][l] * L[j][l];
                L[i][j] = i == j ? std::sqrt(s) : s / L[j][j];
            }
            double s = c[p[i]];
            for (int l = 0; l < i; l++) s -= L[i][l] * y[l];
            y[i] = s / L[i][i];
        }
        for (int i = 0; i < D; i++) z[i] = 0;
        for (int i = n - 1; i >= 0; i--) {
            for (int l = i + 1; l < n; l++) y[i] -= L[l][i] * y[l];
            z[p[i]] = y[i] /= L[i][i];
        }
        unsigned wrong = 0;
        for (int i = 0; i < D; i++) {
            double drive = c[i];
            for (int j = 0; j < D; j++) drive -= M[i][j] * z[j];
            if (firing >> i & 1 ? z[i] < 0 : drive > 1e-12) wrong |= 1u << i;
        }
        if (!wrong) return;
        firing ^= wrong;
    }
}

template <int D> static void learn(const double* X, long n, double eta0, double decay, double tau, double* weights, double* Z) {
    double W[D][D], M[D][D] = {}, x_bar[D] = {}, c_bar[D] = {}, c[D], z[D];
    for (int i = 0; i < D; i++) M[i][i] = 1;
    for (int i = 0; i < D * D; i++) W[i / D][i % D] = weights[i];
    for (long t = 0; t < n; t++, X += D) {
        for (int i = 0; i < D; i++) {
            c[i] = 0;
            for (int j = 0; j < D; j++) c[i] += W[i][j] * X[j];
        }
        settle<D>(M, c, z);
        double eta = eta0 / (1 + decay * t), weight = 1.0 / (t + 1);
        for (int i = 0; i < D; i++) x_bar[i] += weight * (X[i] - x_bar[i]), c_bar[i] += weight * (c[i] - c_bar[i]);
        for (int i = 0; i < D; i++)
            for (int j = 0; j < D; j++) {
                W[i][j] += 2 * eta * (z[i] * X[j] - (c[i] - c_bar[i]) * (X[j] - x_bar[j]));
                M[i][j] += eta / tau * (z[i] * z[j] - M[i][j]);
            }
        if (Z) for (int i = 0; i < D; i++) *Z++ = z[i];
    }
    for (int i = 0; i < D * D; i++) weights[i] = W[i / D][i % D];
}

extern "C" void learn3(const double* X, long n, double eta0, double decay, double tau, double* W, double* Z) { learn<3>(X, n, eta0, decay, tau, W, Z); }
extern "C" void learn10(const double* X, long n, double eta0, double decay, double tau, double* W, double* Z) { learn<10>(X, n, eta0, decay, tau, W, Z); }
