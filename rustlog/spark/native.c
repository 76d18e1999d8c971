/*
 * What takes most of the time of decoding, in C; rustlog/spark/native.py compiles and calls it.
 *
 * It does the same as fields.py, chains.py and gathering.py do with numpy, and reads nothing outside of the
 * bounds that it is given, whatever the bytes say.
 */

#include <stdint.h>
#include <string.h>

enum { SIZE_BYTES_MAX = 5 };

/* A zigzag varint, and where it ends; NULL: it does not end in time, or has more than 64 bits. */
static inline const uint8_t *read_number(const uint8_t *at, const uint8_t *end, int64_t *number) {
    uint64_t raw = 0;
    for (int shift = 0; at < end && shift < 70; shift += 7) {
        uint8_t byte = *at++;
        if (shift == 63 && byte > 1) return NULL;
        raw |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *number = (int64_t)(raw >> 1) ^ -(int64_t)(raw & 1);
            return at;
        }
    }
    return NULL;
}

/* A key or value: where it is, its size (-1 for null), and where it ends; NULL: that is wrong. */
static inline const uint8_t *read_content(const uint8_t *data, const uint8_t *at, const uint8_t *end,
                                          int64_t *begin, int64_t *size) {
    at = read_number(at, end, size);
    if (at == NULL || *size < -1 || *size > end - at) return NULL;
    *begin = at - data;
    return *size > 0 ? at + *size : at;
}

/*
 * Find the fields of all records of some batches, whose records are between begins[n] and ends[n] in data.
 * There is room for all of them in the arrays that follow; the last five are left alone unless deep.
 * Returns -1, or the number of the batch that is not made of so many records.
 */
int64_t rustlog_locate(const uint8_t *data, int64_t batches, const int64_t *begins, const int64_t *ends,
                       const int64_t *counts, int64_t deep, int64_t *stops, int64_t *timestamps,
                       int64_t *offsets, int64_t *key_at, int64_t *key_sizes, int64_t *value_at,
                       int64_t *value_sizes, int64_t *headers_at) {
    int64_t row = 0;
    for (int64_t batch = 0; batch < batches; batch++) {
        const uint8_t *at = data + begins[batch], *end = data + ends[batch];
        for (int64_t last = row + counts[batch]; row < last; row++) {
            const uint8_t *begin = at;
            int64_t size;
            at = read_number(at, end, &size);
            if (at == NULL || at - begin > SIZE_BYTES_MAX || size < 1 || size > end - at) return batch;
            const uint8_t *stop = at + size;
            stops[row] = stop - data;
            at = read_number(at + 1, stop, &timestamps[row]); /* one byte of attributes is passed over */
            if (at != NULL) at = read_number(at, stop, &offsets[row]);
            if (at != NULL && deep) {
                at = read_content(data, at, stop, &key_at[row], &key_sizes[row]);
                if (at != NULL) at = read_content(data, at, stop, &value_at[row], &value_sizes[row]);
                if (at == NULL || at == stop || (*at == 0 && at + 1 != stop)) return batch;
                headers_at[row] = at - data;
            }
            if (at == NULL) return batch;
            at = stop;
        }
        if (at != end) return batch;
    }
    return -1;
}

/* Copy pieces of data behind each other; where each begins goes to offsets, and the end of the last. */
void rustlog_gather(const uint8_t *data, int64_t count, const int64_t *at, const int64_t *sizes,
                    int32_t *offsets, uint8_t *out) {
    int32_t end = 0;
    for (int64_t row = 0; row < count; row++) {
        offsets[row] = end;
        if (sizes[row] > 0) {
            memcpy(out + end, data + at[row], (size_t)sizes[row]);
            end += (int32_t)sizes[row];
        }
    }
    offsets[count] = end;
}
