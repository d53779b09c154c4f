package run

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"sync/atomic"
)

const (
	// MaxLine is the longest line that is run, in bytes, without its end.
	MaxLine = 1 << 20
	// shown is how much of a line that is too long its result shows.
	shown = 80
)

// A Source is one input, opened when its turn comes.
type Source struct {
	Name  string // as it is told to the user; "-" is standard input
	Open  func() (io.ReadCloser, error)
	Whole bool // a regular file: reading on to its end takes no one's doing
}

// FileSource returns the named file as a source. A file that cannot be read is told at once, as
// far as that shows without reading from it: pipes and devices are not touched.
func FileSource(name string) (Source, error) {
	info, err := os.Stat(name)
	if err != nil {
		return Source{}, err
	}
	if info.IsDir() {
		return Source{}, fmt.Errorf("read %s: is a directory; want a file of lines", name)
	}
	if info.Mode().IsRegular() {
		f, err := os.Open(name)
		if err != nil {
			return Source{}, err
		}
		f.Close()
	}
	open := func() (io.ReadCloser, error) { return os.Open(name) }
	return Source{name, open, info.Mode().IsRegular()}, nil
}

// StreamSource returns what r reads as a source. Closing the source does not close r. A regular
// file is read from where it stands, which does not move.
func StreamSource(name string, r io.Reader) Source {
	if f, ok := r.(*os.File); ok {
		info, err := f.Stat()
		if err == nil && info.Mode().IsRegular() {
			if at, err := f.Seek(0, io.SeekCurrent); err == nil {
				open := func() (io.ReadCloser, error) {
					return io.NopCloser(io.NewSectionReader(f, at, math.MaxInt64-at)), nil
				}
				return Source{name, open, true}
			}
		}
	}
	return Source{Name: name, Open: func() (io.ReadCloser, error) { return io.NopCloser(r), nil }}
}

// title names the source in messages.
func (s Source) title() string {
	if s.Name == "-" {
		return "standard input"
	}
	return s.Name
}

// A line is one line of input that is not blank.
type line struct {
	source string
	number int64 // from 1, blank lines counted, anew in each source
	text   string
	err    error // too long: text is its beginning
}

// A reader sends the lines of its sources, in order, until stop is done; then it goes on counting
// those of regular files.
type reader struct {
	sources []Source
	lines   chan line     // closed at the end of all input, or when reading was stopped
	done    chan struct{} // closed when nothing more will be counted
	failed  func(error)   // told of each source that could not be read (to its end)

	count atomic.Int64 // lines seen
	ended atomic.Bool  // all sources were read to their ends
}

func newReader(sources []Source, failed func(error)) *reader {
	return &reader{
		sources: sources, failed: failed,
		lines: make(chan line, 16), done: make(chan struct{}),
	}
}

// whole reports whether reading on to the end of all sources takes no one's doing.
func (r *reader) whole() bool {
	for _, s := range r.sources {
		if !s.Whole {
			return false
		}
	}
	return true
}

// run reads. Once stop is done no line is sent; once abort is done nothing is read.
func (r *reader) run(stop, abort context.Context) {
	defer close(r.done)
	sending := true
	end := func() {
		if sending {
			sending = false
			close(r.lines)
		}
	}
	defer end()
	for _, s := range r.sources {
		if stop.Err() != nil {
			end()
			if !s.Whole {
				return
			}
		}
		f, err := s.Open()
		if err != nil {
			r.failed(err)
			continue
		}
		err = scan(f, func(l line) bool {
			r.count.Add(1)
			if sending {
				if len(r.sources) > 1 {
					l.source = s.Name
				}
				select {
				case r.lines <- l:
				case <-stop.Done():
					end()
				}
			}
			return abort.Err() == nil && (sending || s.Whole)
		})
		f.Close()
		if errors.Is(err, errStopped) {
			return
		}
		if err != nil {
			r.failed(fmt.Errorf("%s: reading stopped: %w", s.title(), err))
		}
	}
	r.ended.Store(true)
}

// countLines adds up the lines of regular files that would be run, so that progress can tell how
// many are left. It gives up, returning false, where a source is not a regular file, cannot be read, or ctx is done.
func countLines(ctx context.Context, sources []Source) (n int64, ok bool) {
	for _, s := range sources {
		if !s.Whole {
			return 0, false
		}
		f, err := s.Open()
		if err != nil {
			return 0, false
		}
		err = scan(f, func(line) bool {
			n++
			return ctx.Err() == nil
		})
		f.Close()
		if err != nil {
			return 0, false
		}
	}
	return n, true
}

// errStopped: the function given to scan wanted no more.
var errStopped = errors.New("stopped")

// scan calls each for every line of r that is not blank, until it returns false. Lines end in LF or CRLF;
// the last may lack its end. A line above MaxLine is told as an error and skipped. Memory: one line.
func scan(r io.Reader, each func(line) bool) error {
	in := bufio.NewReaderSize(r, 64<<10)
	if mark, _ := in.Peek(3); string(mark) == "\ufeff" {
		in.Discard(3)
	}
	for number := int64(1); ; number++ {
		text, long, err := readLine(in)
		if long {
			l := line{number: number, text: strings.ToValidUTF8(string(text[:shown]), "") + " ...",
				err: fmt.Errorf("the line is longer than %d bytes; it was not run", MaxLine)}
			if !each(l) {
				return errStopped
			}
		} else if len(bytes.TrimSpace(text)) > 0 && !each(line{number: number, text: string(text)}) {
			return errStopped
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// readLine reads one line without its end. Of one that is too long it keeps the beginning alone.
// What was read before an error is returned with it.
func readLine(in *bufio.Reader) (text []byte, long bool, err error) {
	for {
		var part []byte
		part, err = in.ReadSlice('\n')
		if !long {
			text = append(text, part...)
		}
		if len(text) > MaxLine+2 {
			long, text = true, text[:shown]
		}
		if err != bufio.ErrBufferFull {
			break
		}
	}
	if long {
		return text, true, err
	}
	text = bytes.TrimSuffix(text, []byte("\n"))
	text = bytes.TrimSuffix(text, []byte("\r"))
	if len(text) > MaxLine {
		return text[:shown], true, err
	}
	return text, false, err
}
