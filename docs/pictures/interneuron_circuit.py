"""The circuit of Algorithm 1 (the paper's figure 2): inputs, principal neurons and interneurons."""

import matplotlib.pyplot as plt
from circuit_layers import ROWS, draw_layers

INPUT, OUTPUT, INTER = "#7A7A7A", "#0072B2", "#E69F00"

figure, ax = plt.subplots(figsize=(6.0, 4.0), layout="constrained")
ax.set_axis_off()
ax.set(aspect="equal", xlim=(-0.8, 6.0), ylim=(-1.0, 3.4))
for y in ROWS:
    for target in ROWS:
        line = {"arrowstyle": "-|>", "lw": 0.9, "alpha": 0.75, "shrinkA": 19, "shrinkB": 20}
        bar = line | {"arrowstyle": "|-|, widthA=0, widthB=0.3", "mutation_scale": 9, "color": INTER}
        ax.annotate("", (2.6, target), (0, y), arrowprops=line | {"color": INPUT})
        ax.annotate("", (5.2, target + 0.07), (2.6, y + 0.07), arrowprops=line | {"color": OUTPUT})
        ax.annotate("", (2.6, target - 0.07), (5.2, y - 0.07), arrowprops=bar)
layers = (
    (0, "x", INPUT, "inputs", "k"),
    (2.6, "y", OUTPUT, "principal neurons", "d"),
    (5.2, "n", INTER, "interneurons", "m"),
)
draw_layers(ax, layers, 3.2)
ax.text(1.3, 2.85, "$W_{xy}$", ha="center")
ax.text(3.9, 2.85, "$W_{yn}$ (out),  $-W_{ny}$ (back)", ha="center")
note = "arrows excite, bars inhibit; every synapse learns from its two neurons"
ax.text(2.6, -0.75, note, ha="center", fontsize=8)
