"""The circuit of ConeNetwork: inputs, dendrites, somata, and inhibition that differs in its two directions."""

import matplotlib.pyplot as plt
from circuit_layers import ROWS, draw_layers

INPUT, DENDRITE, SOMA, INHIBITION = "#7A7A7A", "#56B4E9", "#0072B2", "#D55E00"

figure, ax = plt.subplots(figsize=(6.4, 3.9), layout="constrained")
ax.set_axis_off()
ax.set(aspect="equal", xlim=(-0.8, 7.4), ylim=(-1.1, 3.3))
for y in ROWS:
    for target in ROWS:
        line = {"arrowstyle": "-|>", "color": INPUT, "lw": 0.9, "shrinkA": 12, "shrinkB": 13}
        ax.annotate("", (2.6, target), (0, y), arrowprops=line)
    ax.annotate("", (4.05, y + 0.08), (2.9, y + 0.08), arrowprops={"arrowstyle": "-|>", "color": SOMA, "lw": 1.5})
    ax.annotate("", (2.9, y - 0.1), (4.05, y - 0.1), arrowprops={"arrowstyle": "->", "color": SOMA, "lw": 1, "ls": ":"})
for source, target, bend in ((0, 1, -0.5), (1, 0, 0.85), (1, 2, -0.5), (2, 1, 0.85), (0, 2, -0.75), (2, 0, 0.95)):
    bar = {"arrowstyle": "|-|, widthA=0, widthB=0.25", "color": INHIBITION, "lw": 1, "mutation_scale": 10}
    ends = (4.62, ROWS[target] + (0.06 if source > target else -0.06)), (4.62, ROWS[source])
    ax.annotate("", *ends, arrowprops={**bar, "connectionstyle": f"arc3,rad={bend}"})
layers = (
    (0, "x", INPUT, "inputs", "k"),
    (2.6, "c", DENDRITE, "dendrites", "d"),
    (4.3, "z", SOMA, "somata", "d"),
)
draw_layers(ax, layers, 2.95)
ax.text(1.3, 2.75, "$W_{xz}$", ha="center")
ax.text(6.6, 1.2, "$-W_{zz}$", ha="center", va="center", color=INHIBITION)
note = "dotted: the membrane $v_i$ teaches its dendrite\nbars inhibit; each direction has its own weight"
ax.text(3.45, -0.75, note, ha="center", va="center", fontsize=8)
