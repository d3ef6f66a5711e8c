package serve

import (
	"context"
	"time"
)

// refusedToken is that of a start which is to be refused, should it come.
type refusedToken struct {
	token string
	until time.Time
}

// expire forgets tokens whose time is up, for who holds the lock.
func (s *Server) expire(now time.Time) {
	i := 0
	for i < len(s.refused) && !now.Before(s.refused[i].until) {
		i++
	}
	s.refused = s.refused[i:]
}

// refuse remembers a token, for who holds the lock. The oldest give way.
func (s *Server) refuse(token string, now time.Time) {
	s.expire(now)
	for i, r := range s.refused {
		if r.token == token {
			s.refused = append(s.refused[:i:i], s.refused[i+1:]...)
			break
		}
	}
	if len(s.refused) >= maxTokens {
		s.refused = s.refused[1:]
	}
	s.refused = append(s.refused, refusedToken{token, now.Add(tokenTime)})
}

// wasRefused is true for a token that was aborted before its start came, for
// who holds the lock.
func (s *Server) wasRefused(token string, now time.Time) bool {
	s.expire(now)
	for _, r := range s.refused {
		if r.token == token {
			return true
		}
	}
	return false
}

func (c *call) abortStart() func() {
	var p AbortParams
	if !c.params(&p) {
		return nil
	}
	if p.Token == "" || len(p.Token) > maxToken {
		c.fail(wrong("token", p.Token, "the token of a start is expected"))
		return nil
	}
	c.s.mu.Lock()
	st := c.s.tokens[p.Token]
	if st == nil {
		c.s.refuse(p.Token, time.Now())
	}
	c.s.mu.Unlock()
	r := &AbortResult{Token: p.Token, State: "remembered"}
	if st == nil {
		c.answer(nil, r)
		return nil
	}
	st.cancel()
	return func() {
		<-st.done
		if r.State = "aborted"; st.job == nil || st.joined {
			c.answer(nil, r)
			return
		}
		// It goes on when this request is cancelled: it was to end.
		rep, err := st.job.stop(context.Background(), st.job.grace, false)
		if err != nil && rep.Schema == "" {
			c.fail(err)
			return
		}
		if r.Name, r.Report, r.State = st.job.name, &rep, "stopped"; !rep.Confirmed {
			r.State = "unconfirmed"
		}
		c.answer(st.job.box, r)
	}
}
