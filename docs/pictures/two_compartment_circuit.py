"""The circuit of Algorithm 2 (the paper's figure 3): inputs, dendrites and somata."""

import matplotlib.pyplot as plt
from circuit_layers import ROWS, draw_layers

INPUT, DENDRITE, SOMA, INHIBITION = "#7A7A7A", "#56B4E9", "#0072B2", "#D55E00"

figure, ax = plt.subplots(figsize=(6.0, 3.8), layout="constrained")
ax.set_axis_off()
ax.set(aspect="equal", xlim=(-0.8, 6.8), ylim=(-0.9, 3.3))
for y in ROWS:
    for target in ROWS:
        line = {"arrowstyle": "-|>", "color": INPUT, "lw": 0.9, "shrinkA": 19, "shrinkB": 20}
        ax.annotate("", (2.6, target), (0, y), arrowprops=line)
    ax.annotate("", (3.95, y), (2.9, y), arrowprops={"arrowstyle": "-|>", "color": SOMA, "lw": 1.5})
for upper, lower, bend in ((0, 1, -0.6), (1, 2, -0.6), (0, 2, -0.75)):  # W_zz is symmetric: a bar at both ends
    bars = {"arrowstyle": "|-|, widthA=0.2, widthB=0.2", "color": INHIBITION, "lw": 1.2, "mutation_scale": 12}
    ends = (4.58, ROWS[lower] + 0.06), (4.58, ROWS[upper] - 0.06)
    ax.annotate("", *ends, arrowprops={**bars, "connectionstyle": f"arc3,rad={bend}"})
layers = (
    (0, "x", INPUT, "inputs", "k"),
    (2.6, "c", DENDRITE, "dendrites", "d"),
    (4.25, "z", SOMA, "somata", "d"),
)
draw_layers(ax, layers, 2.95)
ax.text(1.3, 2.75, "$W_{xz}$", ha="center")
ax.text(6.2, 1.2, "$-W_{zz}$", ha="center", va="center", color=INHIBITION)
ax.text(3.0, -0.75, "a dendrite and its soma are one neuron; bars inhibit", ha="center", fontsize=8)
