// Nobody calls it: it is there only if the whole archive is linked.
#include "tests/integration/cc/part.h"

static const int registered = counter() += 10;
