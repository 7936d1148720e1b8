// Command outside runs the misbehaving service of the tests as a process, to try Wakepoint against it
// by hand:
//
//	go run ./tests/outside/cmd/outside -addr 127.0.0.1:8090 -log outside.log -seed 7
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/wakepoint/wakepoint/tests/outside/service"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	addr := flag.String("addr", "127.0.0.1:8090", "where to listen")
	log := flag.String("log", "outside.log", "the file that tells what was really done; it is added to")
	seed := flag.Uint64("seed", 1, "what the misbehaviour follows from")
	flag.Parse()
	s, err := service.New(service.Options{LogFile: *log, Plan: service.Seeded(*seed, service.DefaultMix())})
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	server := &http.Server{Addr: *addr, Handler: s, ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	fmt.Fprintf(os.Stderr, "listening on %s, POST /safe/jobs or /unsafe/jobs\n", *addr)
	err = server.ListenAndServe()
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	return errors.Join(err, s.Close())
}
