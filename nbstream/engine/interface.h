/* The C interface of the native library. Both sides compute the checksum of this text and compare it when the
 * library is loaded: whoever changes a function here changes it on both sides, or the library is refused. */
#include <stdint.h>

uint64_t nbn_interface_checksum(void);
uint32_t nbn_tokenizer_version(void);
