// Requests and replies as bytes: RESP2, with the five types that the commands need.

package rlock

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"
)

// Limits that no answer of an RLOCK command exceeds, so that nothing on the way to the server can take all memory.
const (
	longestBulk  = 8 << 20 // an answer of ONCE
	longestArray = 1 << 20
	deepest      = 6
)

var errGarbled = errors.New("the answer is not one of an RLOCK command")

func command(words ...string) []byte {
	all := strconv.AppendInt(append(make([]byte, 0, 32*len(words)), '*'), int64(len(words)), 10)
	for _, word := range words {
		all = strconv.AppendInt(append(all, "\r\n$"...), int64(len(word)), 10)
		all = append(append(all, "\r\n"...), word...)
	}
	return append(all, "\r\n"...)
}

// status is a simple string, such as WAITING, unlike a bulk string with the same text.
type status string

// readReply gives nil, an int64, a string, a status, a serverError, or a slice of these.
func readReply(from *bufio.Reader, depth int) (any, error) {
	line, err := from.ReadSlice('\n')
	if err != nil {
		return nil, err
	}
	text := strings.TrimSuffix(string(line), "\r\n")
	if text == "" || depth > deepest {
		return nil, errGarbled
	}
	kind, text := text[0], text[1:]
	switch kind {
	case '+':
		return status(text), nil
	case '-':
		return serverError(text), nil
	}
	number, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err != nil:
		return nil, errGarbled
	case kind == ':':
		return number, nil
	case number == -1 && (kind == '$' || kind == '*'):
		return nil, nil
	case kind == '$' && number >= 0 && number <= longestBulk:
		bulk := make([]byte, number+2)
		_, err := io.ReadFull(from, bulk)
		return string(bulk[:number]), err
	case kind == '*' && number >= 0 && number <= longestArray:
		var list []any
		for range number {
			element, err := readReply(from, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, element)
		}
		return list, nil
	}
	return nil, errGarbled
}

// isWhole says whether these bytes begin with a whole answer. Bytes that are no answer count as one: readReply refuses them.
func isWhole(b []byte) bool {
	whole, _ := skipReply(b)
	return whole
}

// skipReply gives what follows the first answer.
func skipReply(b []byte) (whole bool, rest []byte) {
	line, rest, found := bytes.Cut(b, []byte("\r\n"))
	if !found || len(line) == 0 || line[0] != '$' && line[0] != '*' {
		return found, rest
	}
	number, err := strconv.Atoi(string(line[1:]))
	if err != nil || number < 0 {
		return true, rest
	}
	if line[0] == '$' {
		return len(rest) >= number+2, rest[min(len(rest), number+2):]
	}
	for range number {
		if whole, rest = skipReply(rest); !whole {
			return false, nil
		}
	}
	return true, rest
}
