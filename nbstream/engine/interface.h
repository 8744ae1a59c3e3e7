/* The C interface of the native library. Both sides compute the checksum of this text, of nbstream/tokens/__init__.py,
 * where the version of the tokenizer is, and of the version of nbstream, and compare it when the library is loaded:
 * whoever changes a function here changes it on both sides, or the library is refused. */
#include <stddef.h>
#include <stdint.h>

uint64_t nbn_interface_checksum(void);

/* The table: token -> counts. See native/src/table. One thread at a time uses it. A function that returns int64_t returns
 * a negative number for an error: -1 arguments that do not fit together, -2 no more names have room, -3 a fault of the
 * library, after which the table is of no use.
 * joined: names, separated by line feeds. rows: the counts of each name in all columns, which are ham, spam and then the
 * kinds of ham. */
typedef struct nbn_table nbn_table;
nbn_table *nbn_table_new(const uint64_t *key /* 2 */, uint64_t names, uint64_t columns);
void nbn_table_free(nbn_table *table);
/* out: names that have counts, sums among them, bytes of all these names, bytes of memory in use. */
int64_t nbn_table_describe(const nbn_table *table, int64_t *out /* 4 */);
/* Where columns is 0, rows gets two counts for each name: those of ham with all its kinds, and of spam. */
int64_t nbn_table_look_up(const nbn_table *table, const uint8_t *joined, size_t length, int64_t *rows, size_t count,
                          size_t columns);
int64_t nbn_table_read(const nbn_table *table, int64_t *rows, size_t count, size_t columns, uint8_t *names,
                       size_t capacity, uint64_t *names_length);
int64_t nbn_table_set_counts(const nbn_table *table, const uint8_t *joined, size_t length, const int64_t *rows,
                             size_t count, size_t columns);
int64_t nbn_table_set_column(const nbn_table *table, const uint8_t *joined, size_t length, const int64_t *counts,
                             size_t count, uint32_t column);
int64_t nbn_table_add_column(const nbn_table *table);

/* How much of a message is read, and what is made of it: see MessageLimits and TokenizerOptions. */
typedef struct {
    uint64_t look_bytes, max_parts, max_depth, max_tokens;
    uint32_t is_bare_text, has_trusted_servers;
} nbn_tokenize_options;

/* What the library asks the caller of nbn_tokenize; native/src/foreign.rs says what the arguments are. */
enum nbn_question {
    NBN_KEY_FIELD = 1,
    NBN_FIELD_TOKENS = 3,
    NBN_RELATION_TOKENS = 4,
    NBN_FILE_NAME_TOKENS = 5,
    NBN_LOWER_TEXT = 6,
    NBN_AUTHENTICATION_TOKENS = 7,
    NBN_BARE_TEXT_TOKENS = 8,
    NBN_LINK_TOKENS = 9,
    NBN_FOLDED_PIECES = 10,
};

/* Asks the caller of nbn_tokenize what the library does not know: a question with `count` arguments. The caller gives
 * the answer by nbn_answer before it returns; without one the message is handed back. */
typedef void (*nbn_ask)(void *answer, uint32_t question, const uint8_t *const *arguments, const size_t *lengths,
                        size_t count);

/* Each piece of an answer is followed by a line feed, unless the question says something else. */
void nbn_answer(void *answer, const uint8_t *content, size_t length);

/* Takes a message apart (CRLF line ends). Returns how many bytes the result needs; it is written to `output` where it
 * fits into `capacity`. Returns -1 where the message is handed back: the caller takes it apart then.
 *
 * The result: uint32_t flags (1: there is a header of mail), uint32_t sizes of the three groups of tokens, the key with
 * 24 characters, the tokens separated by line feeds. */
int64_t nbn_tokenize(const uint8_t *raw, size_t length, const nbn_tokenize_options *options, nbn_ask ask,
                       uint8_t *output, size_t capacity);

/* The names of private tokens: keyed hashes of the tokens in joined, joined like them. See
 * nbstream/tokens/private_tokens.py. Returns how many bytes were written to out, or -1 where they do not fit. */
int64_t nbn_hash_tokens(const uint8_t *key /* 16 */, const uint8_t *joined, size_t length, uint8_t *out,
                        size_t capacity);

/* The score of a message. See native/src/score. joined: its tokens, separated by line feeds. out, little-endian:
 * - doubles: the log-odds, P(spam), P(spam) without the discount, the log-odds with it, and the deviations of the novelty,
 *   0 where there is no discount;
 * - 4 bytes each: how many bytes an index, a count and all names take; how many tokens of each of the 4 groups of
 *   nbstream/tokens/token_groups.py there are, and how many of these spam has had;
 * - of the clues: the indices of all (unsigned; 1, 2 or 4 bytes), then the counts of ham and spam of each (signed; 4 or 8
 *   bytes), then the log-ratios of all (doubles), then their order, the strongest first, as places among these (unsigned,
 *   2 bytes), and their names in this order, separated by line feeds.
 * Returns the number of clues, or an error as above (-1 also where they do not fit into the `capacity` bytes of out); -9
 * where Python has to compute the score. */
typedef struct {
    uint64_t sizes[3];   /* of the groups of tokens */
    uint64_t limits[3];  /* how many of a group vote for each class */
    int64_t tokens[2], vocabulary; /* the totals: the tokens of ham and of spam, and how many distinct ones there are */
    double alpha, prior;
    double occurrences, per_probability; /* of the common model as the prior of own models */
    /* What P(spam) depends on besides: what the log-odds are divided by, the least and the greatest P(spam), the novelty
     * of labelled spam (mean, deviation, mean tokens of each group), and the pairs of temperature T and bias b, each with
     * three doubles: its share, b and 2 T. Without pairs P(spam) is 0. See nbstream/bayes/calibration.py and novelty.py. */
    double divisor, bounds[2], mean, deviation, group_tokens[4];
    const double *pairs;
    uint64_t pair_count;
} nbn_score_request;
/* The counts of the tokens in an own model, and which count of ham and of spam is one occurrence. The upper model comes
 * first. See nbstream/bayes/classifier.py. */
typedef struct {
    const int64_t *rows;
    uint64_t count;
    double units[2];
} nbn_own_counts;
int64_t nbn_score_in_table(const nbn_table *table, const uint8_t *joined, size_t length,
                           const nbn_score_request *request, const nbn_own_counts *own, size_t levels, uint8_t *out,
                           size_t capacity);
int64_t nbn_score_rows(const uint8_t *joined, size_t length, const int64_t *rows, size_t count,
                       const nbn_score_request *request, const nbn_own_counts *own, size_t levels, uint8_t *out,
                       size_t capacity);

/* The posterior of the calibration. grid: doubles for each pair: the log-prior, the bias, 2 T, then the log-likelihood of
 * the label ham in each bin, and of the label spam. counts: of ham and spam in each bin. evidence: how much one count says.
 * out: three doubles for each pair that counts, as above. Returns their number; -9 where Python has to compute them. */
int64_t nbn_posterior(const double *grid, size_t pairs, const int64_t *counts, size_t bins, double evidence, double *out);

/* Numbers for names: each new name gets the next number. See nbstream/engine/name_numbers.py. Nobody else may use the
 * same object during a call. Errors are those of tables. nbn_names_number writes the numbers of `count` names and returns
 * how many names there are then. nbn_names_joined returns how many bytes the names from number `first` on have, joined;
 * they are written where they fit. */
typedef struct nbn_names nbn_names;
nbn_names *nbn_names_new(const uint64_t *key /* 2 */);
void nbn_names_free(nbn_names *names);
int64_t nbn_names_number(nbn_names *names, const uint8_t *joined, size_t length, int64_t *numbers, size_t count);
int64_t nbn_names_joined(const nbn_names *names, size_t first, uint8_t *out, size_t capacity);
