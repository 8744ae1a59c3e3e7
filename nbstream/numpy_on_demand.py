"""numpy as ``np``, imported when something of it is first used: most commands never use any.

To import numpy takes a fifth of the time of a short command, and 7 MB. The modules of ``mail``, which stand on the
same floor as this one, import numpy in the few functions that use it.
"""

from typing import TYPE_CHECKING

__all__ = ["np"]

if TYPE_CHECKING:
    import numpy as np
else:

    class _Numpy:
        def __getattr__(self, name: str) -> object:
            import numpy  # noqa: PLC0415 - this is what the module is for

            value = getattr(numpy, name)
            setattr(self, name, value)
            return value

    np = _Numpy()
