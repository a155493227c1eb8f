"""Tables of streams and of the time of a fit, in the manner of `tables`."""

import numpy as np

from streams.tables import groups, met, table

from .methods import BATCH, CONE, ONLINE, PEERS
from .tables import columns, median, of, summary, values, verdict

#: dB below the batch method, dB of the paper's images, MB gained by a long stream, us a sample, dB under drift.
BELOW_BATCH, IMAGES, MEGABYTES, MICROSECONDS, DRIFT = 0.5, 40.0, 10.0, 2.0, 20.0
OF_BATCH_TIME = 3.0


def _one_pass(some):
    batch = [values(of(some, m), "batch") for m in (CONE, ONLINE)]
    names = (f"{CONE}, all data", f"{BATCH}, all data")
    return columns(some) | {name: summary(found) for name, found in zip(names, batch, strict=True) if len(found)}


def stream(rows):
    lines = []
    for (snr, rho), some in groups(rows, "snr_db", "rho").items():
        below = values(of(some, CONE), "batch") - values(of(some, CONE))
        below = np.nan_to_num(below, nan=np.inf)
        lines.append({"dB": snr, "rho": rho} | _one_pass(some) | {"below batch": summary(below, worst=np.max)})
        lines[-1] |= {"target": f"median <= {BELOW_BATCH:g}"}
        lines[-1] |= {"verdict": verdict(some, len(below) and np.median(below) <= BELOW_BATCH)}
    note = f"SINR in dB: median (worst). One pass of `partial_fit` over T = {rows[0]['T']:,} independent samples; d = 5, k = 10."
    return table("One pass, copula", note, lines)


def stream_images(rows):
    lines = []
    for (name, k, order), some in groups(rows, "images", "k", "order").items():
        judged = name == "the paper's"
        lines.append({"images": name, "k": k, "order": order} | _one_pass(some))
        lines[-1] |= {"target": f"median >= {IMAGES:g}" if judged else ""}
        lines[-1] |= {"verdict": verdict(some, median(some, CONE) >= IMAGES) if judged else ""}
    return table("One pass, images", "SINR in dB: median (worst). Natural order is row after row.", lines)


def long(rows):
    lines = []
    for row in rows:
        start, end = row.get("megabytes", (0.0, np.inf))
        lines.append(
            {"method": row["method"], "samples": row["T"], "SINR at the end": f"{row.get('sinr', -np.inf):.2f}"}
        )
        lines[-1] |= {"MB at 10 %": start, "MB at the end": end, "target": f"<= {MEGABYTES:g} MB more"}
        lines[-1] |= {"verdict": met(end - start <= MEGABYTES)}
    return table("Memory of a long stream", "Resident memory. Copula, rho = 0.5, 30 dB, d = 5, k = 10.", lines)


def stream_speed(rows):
    lines = []
    for (method,), some in groups(rows, "method").items():
        found = values(some, "us", np.inf)
        lines.append({"method": method, "samples": some[0]["T"], "us a sample": summary(found, worst=np.max)})
        lines[-1] |= {"target": f"< {MICROSECONDS:g}" if method == CONE else ""}
        lines[-1] |= {"verdict": met(np.median(found) < MICROSECONDS) if method == CONE else ""}
    return table("Time of a sample", "CPU time of one pass in chunks of 1,000: median (worst). d = 5, k = 10.", lines)


def drift(rows):
    lines = []
    for (change, horizon, method), some in groups(rows, "change", "horizon", "method").items():
        found = values(some)
        lines.append({"what changes": change, "method": method, "turn": some[0]["turn"], "horizon": horizon})
        lines[-1] |= {"median window": summary(values(some, "median")), "10 %": summary(values(some, "tenth"))}
        lines[-1] |= {"lowest window": summary(found), "target": f"lowest > {DRIFT:g}" if method == CONE else ""}
        lines[-1] |= {"verdict": met(found.min() > DRIFT) if method == CONE else ""}
    note = (
        "SINR in dB of every 1,000 samples before they are learned from, after the first 20,000: median over runs (worst run). "
        "Copula, rho = 0.5, 30 dB, d = 5, k = 10. Either two of the mixtures turn in their plane, or all entries change: "
        "A = cos(t) A_0 + sin(t) A_1. The lowest window of the worst run is judged."
    )
    return table("Drift of a full turn", note, lines)


def chunks(rows):
    lines = []
    for row in rows:
        differ = row.get("differ", ["failed"])
        lines.append({"method": row["method"], "horizon": str(row["horizon"]), "seed": str(row["seed"])})
        lines[-1] |= {"not the same bits": ", ".join(differ) or "none", "verdict": met(not differ)}
    note = f"`components_` after one call of {rows[0]['T']:,} samples against single rows, sevens and chunks of 777."
    return table("Chunks", note, lines)


def duration(rows):
    lines = []
    for (kind, k, snr), some in groups(rows, "kind", "k", "snr_db").items():
        names = [m for m in (CONE, BATCH, *PEERS) if any(m in row.get("seconds", {}) for row in some)]
        found = {m: np.array([row.get("seconds", {}).get(m, np.inf) for row in some]) for m in names}
        line = {"sources": kind, "k": k, "dB": snr} | {f"{m}, s": summary(v, worst=np.max) for m, v in found.items()}
        if CONE in found:
            ratio, of_nmf = found[CONE] / found[BATCH], found[CONE] / found["NMF"]
            ratio, of_nmf = (np.nan_to_num(r, nan=np.inf) for r in (ratio, of_nmf))
            line |= {f"of {BATCH}": summary(ratio, worst=np.max), "of NMF": summary(of_nmf, worst=np.max)}
            good = np.median(ratio) <= OF_BATCH_TIME and np.median(of_nmf) < 1
            line |= {"target": f"<= {OF_BATCH_TIME:g} and < 1", "verdict": met(good)}
        lines.append(line)
    note = (
        f"Seconds of a fit on one core, best of 3 in turns: median over problems (worst). d = 10, T = {rows[0]['T']:,}. NMF: "
        "default iterations, absolute values of A. Medians of the ratios are judged."
    )
    return table("Time of a fit", note, lines)


def wide(rows):
    lines = []
    for row in rows:
        lines.append({"method": row["method"], "k": row["k"], "T": row["T"], "seconds": row.get("seconds")})
        lines[-1] |= {"SINR": f"{row.get('sinr', -np.inf):.2f}"}
        lines[-1] |= {"verdict": met("failure" not in row) if row["method"] == CONE else ""}
    note = (
        "Copula, rho = 0.5, 30 dB, d = 5. Target: it runs. Seconds with the transform. BatchNICA is not measured: with its k x k "
        "whitening it did not end within two minutes."
    )
    return table("Many channels", note, lines)


def dask(rows):
    lines = []
    for row in rows:
        lines.append({"method": row["method"], "T": row["T"], "seconds": row.get("seconds")})
        lines[-1] |= {"SINR": f"{row.get('sinr', -np.inf):.2f}", "in memory": f"{row.get('in_memory', -np.inf):.2f}"}
        lines[-1] |= {"verdict": met("failure" not in row) if row["method"] == CONE else ""}
    note = (
        "Copula, rho = 0.5, 30 dB, d = 5, k = 10, blocks of 100,000 rows. Target: it runs. Memory is not measured here."
    )
    return table("Dask arrays", note, lines)
