package serve

import (
	"context"

	"github.com/unitward/unitward/unit/capture"
	"github.com/unitward/unitward/unit/serve/rpc"
)

// MaxOutput is the most of a stream that one answer to job.output has, in bytes.
const MaxOutput = 4 << 20

func cursor(text string) (capture.Cursor, *Error) {
	if text == "" {
		return capture.Cursor{}, nil
	}
	at, err := capture.ParseCursor(text)
	if err != nil {
		return at, asError(err)
	}
	return at, nil
}

func (c *call) output() func() {
	var q OutputQuery
	if !c.params(&q) {
		return nil
	}
	at, fault := cursor(q.Cursor)
	switch {
	case fault != nil:
	case !oneOf(q.Stream, "", string(capture.Stdout), string(capture.Stderr)):
		fault = wrong("stream", q.Stream, "stdout or stderr is expected")
	case !oneOf(q.Encoding, "", rpc.EncodingText, rpc.EncodingBase64):
		fault = wrong("encoding", q.Encoding, "text or base64 is expected")
	case q.MaxBytes < 0:
		fault = wrong("max_bytes", q.MaxBytes, "a size is expected")
	}
	if fault != nil {
		c.fail(fault)
		return nil
	}
	if q.MaxBytes == 0 {
		q.MaxBytes = 256 << 10
	}
	q.MaxBytes = min(max(q.MaxBytes, 4), MaxOutput)
	return c.large(func() {
		r, err := c.s.output(c.ctx, &q, at)
		if err != nil {
			c.fail(err)
			return
		}
		c.answer(nil, r)
	})
}

// output reads what is there, of a pipe's ring or of a capture.
func (s *Server) output(ctx context.Context, q *OutputQuery, at capture.Cursor) (*OutputResult, error) {
	j := s.find(q.Name)
	if j != nil && j.out != nil {
		r, err := j.out.read(q, at)
		if err == nil {
			r.Facts = j.facts()
		}
		return r, err
	}
	rep, facts, err := s.look(ctx, q.Name)
	if err != nil {
		return nil, err
	}
	dir, err := s.l.OutputDir(q.Name)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	r := &OutputResult{Name: q.Name, Chunks: []Chunk{}, Ended: true, Facts: facts}
	encoding := q.Encoding
	if encoding == "" {
		encoding = rpc.EncodingText
		if j != nil && j.tail != nil {
			encoding = j.tail.encoding
		}
	}
	for _, name := range streamNames {
		if q.Stream != "" && q.Stream != string(name) {
			continue
		}
		place := at.Offset(name)
		p, err := readCapture(dir, name, place, q.MaxBytes)
		if err != nil {
			return nil, err
		}
		b, from, last := p.bytes, p.from, p.last
		if encoding == rpc.EncodingText {
			b = p.text()
		}
		if len(b) == 0 && !p.more && rep.Tree.Empty {
			b, last = p.bytes, true // nobody is left who could write the rest of it
		}
		if len(b) > 0 || from > place {
			r.Chunks = append(r.Chunks, Chunk{
				Stream: string(name), Offset: from, Bytes: len(b), Dropped: from - place, Encoding: encoding, Data: rpc.Encode(b, encoding),
			})
		}
		at = at.With(name, from+int64(len(b)))
		r.More = r.More || p.more
		r.Ended = r.Ended && last
	}
	r.Cursor = at.String()
	return r, nil
}
