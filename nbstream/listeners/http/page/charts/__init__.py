"""Charts: pure functions from data to SVG.

Rules: a chart has no colours, fonts or widths of its own, only classes, which the style sheet gives their look in
light and dark. It has a title and a description for those who do not see it. All texts are escaped here. No number
that comes in makes a coordinate that is not finite, or is outside of the view box.
"""
