"""Windows: which elements belong together, and what is computed over them.

window_options  the options of `window`
functions       the functions over the values of a window
pane            the totals of one stretch of time
open_windows    the windows that are still open: tumbling, sliding, by session

Nothing here reads a clock: the component passes the event times and the watermark.
"""
