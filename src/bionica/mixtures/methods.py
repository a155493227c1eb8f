"""The methods of `bionica.separate` and of `bionica separate`.

Classes are known by name, because importing them takes a second.
"""

#: Method -> class of `bionica`.
METHODS = {
    "batch": "BatchNICA",
    "cone": "MinimumVolumeCone",
    "streaming": "StreamingNICA",
}
