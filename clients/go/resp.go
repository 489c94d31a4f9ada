// Requests and answers as bytes: RESP2, of which the commands need five types.

package rlock

import (
	"bufio"
	"errors"
	"io"
	"strconv"
	"strings"
)

// What no answer of an RLOCK command exceeds, so that nothing between here and the server can ask for all memory.
const (
	longestBulk  = 1 << 20
	longestArray = 1 << 20
	deepest      = 6
)

var errGarbled = errors.New("the answer is not one of an RLOCK command")

func command(words ...string) []byte {
	bytes := strconv.AppendInt(append(make([]byte, 0, 32*len(words)), '*'), int64(len(words)), 10)
	for _, word := range words {
		bytes = strconv.AppendInt(append(bytes, "\r\n$"...), int64(len(word)), 10)
		bytes = append(append(bytes, "\r\n"...), word...)
	}
	return append(bytes, "\r\n"...)
}

// readReply gives nil, an int64, a string, a serverError, or a slice of these.
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
		return text, nil
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
