package cli

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/wakepoint/wakepoint/config"
	"github.com/wakepoint/wakepoint/domain"
	"github.com/wakepoint/wakepoint/starter"
	"github.com/wakepoint/wakepoint/starter/cli/term"
	"github.com/wakepoint/wakepoint/store"
	"github.com/wakepoint/wakepoint/store/blobref"
	"github.com/wakepoint/wakepoint/worker"
)

// What doctor finds out on this host, without an engine.

const (
	// littleSpace and hardlyAnySpace are how much of a disk should be free, in bytes:
	// room for some of the largest results, and for one.
	littleSpace    = 1 << 30
	hardlyAnySpace = 100 << 20
	// lookTimeout bounds one look at anything that may not answer.
	lookTimeout = 5 * time.Second
)

const docsConfig = "docs/config.md lists the keys"

// configuration reads it. Everything else goes on without it as well as it can.
func (x *examination) configuration(ctx context.Context) {
	cfg, err := x.a.config()
	var broken config.Errors
	switch {
	case errors.As(err, &broken):
		for _, one := range broken {
			x.problem(checkConfiguration, "mend it; "+docsConfig, "%s", one)
		}
	case err != nil:
		f := failureOf(ctx, err)
		check := checkConfiguration
		if f.code == string(starter.CodeUnavailable) {
			check = checkEngine
		}
		x.problem(check, f.hint, "%s", f.message)
	case cfg.File == "":
		x.warn(checkConfiguration, "declare tools in "+config.FileName+"; "+docsConfig, "there is no %s here, so there are no tools", config.FileName)
	case len(cfg.Tools) == 0:
		x.warn(checkConfiguration, "declare tools in it; "+docsConfig, "%s declares no tools", cfg.File)
	default:
		x.ok(checkConfiguration, "%s, tenant %s", toolsFrom(cfg), cfg.Tenant)
	}
	if err == nil {
		x.cfg, x.dataDir = cfg, cfg.DataDir
		return
	}
	if x.dataDir, err = x.a.data(config.DefaultDataDir); err != nil {
		x.problem(checkData, "go to a folder that exists", "the current folder: %v", err)
	}
}

func (x *examination) here(ctx context.Context) {
	if x.host == "" {
		if name, err := os.Hostname(); err == nil {
			x.host = name
		}
	}
	if x.dataDir != "" {
		x.folder()
		x.disk()
	}
	if x.cfg == nil {
		x.skip("the configuration cannot be read", checkSecrets, checkTools, checkBlobs, checkServices, checkTargets)
		return
	}
	x.secrets()
	x.tools(ctx)
	x.blobs(ctx)
	x.outside(ctx)
}

// folder sees whether the data folder can be written to, or made.
func (x *examination) folder() {
	at, there := existing(x.dataDir)
	do := "give it to the user that runs wakepoint, or name another folder with --data or dataDir"
	if info, err := os.Stat(at); err != nil || !info.IsDir() {
		x.problem(checkData, do, "%s is no folder", at)
		return
	}
	switch err := writable(at); {
	case err != nil:
		x.problem(checkData, do, "%s cannot be written to: %s", at, reason(err))
	case there:
		x.ok(checkData, "%s can be written to", x.dataDir)
	default:
		x.ok(checkData, "%s is not there yet and can be made", x.dataDir)
	}
}

// writable writes a file into a folder and removes it.
func writable(dir string) error {
	f, err := os.CreateTemp(dir, ".doctor-*")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// existing is the folder, or the nearest one above it that is there.
func existing(dir string) (at string, there bool) {
	for at = dir; ; at = filepath.Dir(at) {
		_, err := os.Lstat(at)
		if !errors.Is(err, fs.ErrNotExist) || at == filepath.Dir(at) {
			return at, at == dir
		}
	}
}

// reason is what the system says, without the path that is told already.
func reason(err error) string {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err.Error()
	}
	return err.Error()
}

func (x *examination) disk() {
	at, _ := existing(x.dataDir)
	free, err := x.a.deps.free(at)
	do := "make room, or put the data folder on another disk: --data or dataDir"
	switch {
	case err != nil:
		x.warn(checkDisk, "look for yourself: df "+at, "how much room there is cannot be found out: %v", err)
	case free < hardlyAnySpace:
		x.problem(checkDisk, do, "only %s are free at %s", term.Bytes(int64(free)), at)
	case free < littleSpace:
		x.warn(checkDisk, do, "%s are free at %s", term.Bytes(int64(free)), at)
	default:
		x.ok(checkDisk, "%s are free at %s", term.Bytes(int64(min(free, 1<<62))), at)
	}
}

func (x *examination) secrets() {
	from, err := config.SecretSource(x.cfg, x.a.env.get)
	switch {
	case err != nil:
		x.problem(checkSecrets, "set it, to the same value for every process of the installation", "%s", strings.TrimPrefix(err.Error(), config.ErrSecret.Error()+": "))
	case from == "":
		x.ok(checkSecrets, "is made at the first use, in %s", x.dataDir)
	default:
		x.ok(checkSecrets, "from %s", from)
	}
}

// tools makes every executor as a worker would, and starts nothing.
func (x *examination) tools(ctx context.Context) {
	var rest []config.Tool
	here := *x.cfg
	here.Tools = nil
	for _, t := range x.cfg.Tools {
		if t.Go != nil || !slices.Contains(ownExecutors, t.Executor) {
			rest = append(rest, t)
			continue
		}
		here.Tools = append(here.Tools, t)
	}
	err := worker.Check(ctx, worker.Options{Config: &here, Getenv: x.a.env.get})
	wrong, locked := 0, make(map[string]bool)
	var mistakes config.Errors
	if !errors.As(err, &mistakes) && err != nil {
		x.problem(checkTools, docsConfig, "%v", err)
		wrong++
	}
	for _, one := range mistakes {
		if strings.HasPrefix(one.Key, "targets.") || strings.Contains(one.Key, ".http.headers.") {
			x.problem(checkSecrets, "give it to the worker, which does not start without", "%s", one)
			if tool, _, ok := strings.Cut(strings.TrimPrefix(one.Key, "tools."), ".http.headers."); ok {
				locked[tool] = true
			}
			continue
		}
		wrong++
		x.problem(checkTools, "mend the tool, or install what it needs; "+docsConfig, "%s", one)
	}
	if n := len(here.Tools) - len(locked); wrong == 0 && n > 0 {
		x.ok(checkTools, "%s can be run here", term.Count(n, "tool"))
	}
	for _, t := range rest {
		x.warn(checkTools, "run the program that registers it as the worker; wakepoint worker refuses it",
			"tool %s belongs to another program, which cannot be looked at from here", t.Name)
	}
	x.declarations(here.Tools)
}

// ownExecutors are those that wakepoint worker has.
var ownExecutors = []string{
	config.ExecutorExec, config.ExecutorExternal, config.ExecutorHTTP, config.ExecutorActivity, config.ExecutorWorkflow,
}

// declarations tells of tools that are declared as nobody would on purpose.
func (x *examination) declarations(tools []config.Tool) {
	for _, t := range tools {
		h := t.HTTP
		if h == nil {
			continue
		}
		if (h.FindURL != "" || h.ListURL != "") && h.StatusURL == "" && h.CancelURL == "" && !h.NoCancel {
			x.warn(checkTools, "declare http.status.url or http.cancel.url, with {id}",
				"a job of tool %s that was found by its key or listed has no place to cancel it at", t.Name)
		}
		if h.Idempotent || h.FindSure {
			continue
		}
		if t.Policy.Effects == domain.EffectsUnsafe && t.Compensate == "" {
			what, then := "every task of tool %s", "waits for a person"
			if h.FindURL != "" {
				what = "a task of tool %s whose job cannot be found"
			}
			if t.Policy.OnUnknown == domain.UnknownFail {
				then = "fails with OUTCOME_UNKNOWN"
			}
			x.warn(checkTools, "if the service can, declare http.idempotent or http.find.sure",
				"after a lost answer "+what+" "+then+": it is unsafe, and its service cannot say for sure whether a job was started", t.Name)
		}
		if t.Policy.Effects == "idempotent" && h.FindURL == "" {
			x.warn(checkTools, "declare effects: unsafe, or http.idempotent if the service acts once for a key",
				"after a lost answer tool %s is submitted again, and its service may then do the work twice", t.Name)
		}
	}
}

// blobs writes an object, reads it back and removes it.
func (x *examination) blobs(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 2*lookTimeout)
	defer cancel()
	const do = "see blobs in docs/config.md"
	raw := x.cfg.BlobURL()
	where, u := raw, (*url.URL)(nil)
	if parsed, err := url.Parse(raw); err == nil {
		u, where = parsed, store.Shown(parsed)
		if u.Scheme == "file" {
			where = u.Path
		}
	}
	if u != nil && u.Scheme == "file" {
		if at, there := existing(u.Path); !there {
			// It is not made here: nobody has asked for it yet.
			if err := writable(at); err != nil {
				x.problem(checkBlobs, do, "%s cannot be made: %s", where, reason(err))
				return
			}
			x.ok(checkBlobs, "%s is not there yet and can be made", where)
			return
		}
	}
	if err := tryBlobs(ctx, raw, x.cfg.Tenant, u); err != nil {
		x.problem(checkBlobs, do, "%s cannot be used: %v", where, err)
		return
	}
	x.ok(checkBlobs, "%s takes results and gives them back", where)
}

func tryBlobs(ctx context.Context, raw, tenant string, u *url.URL) (err error) {
	s, err := store.Open(ctx, raw)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	token := rand.Text()
	key, content := store.Key{Tenant: tenant, TaskID: "doctor-" + token}, []byte(token)
	ref, err := s.PutBytes(ctx, key, content, "text/plain")
	if err != nil {
		return fmt.Errorf("write: %w", err)
	}
	got, err := s.Get(ctx, ref.Ref, ref.Hash)
	if err == nil && !bytes.Equal(got, content) {
		err = errors.New("it is not what was written")
	}
	if err != nil {
		return errors.Join(fmt.Errorf("read back: %w", err), s.Delete(ctx, ref.Ref))
	}
	if err := s.Delete(ctx, ref.Ref); err != nil {
		return err
	}
	if u != nil && u.Scheme == "file" {
		// The folder of a task that never was; one that is not empty stays.
		_ = os.Remove(filepath.Join(u.Path, filepath.Dir(strings.TrimPrefix(ref.Ref, blobref.Scheme))))
	}
	return nil
}

// origin is a host that is asked from here, and who asks it.
type origin struct {
	secure  bool
	address string
	users   []string
	check   string
}

// outside sees whether the hosts of services and targets answer. Nothing is asked of
// them.
func (x *examination) outside(ctx context.Context) {
	places := x.origins()
	errs := make([]error, len(places))
	var group sync.WaitGroup
	gate := make(chan struct{}, 8)
	for i, p := range places {
		group.Go(func() {
			gate <- struct{}{}
			defer func() { <-gate }()
			errs[i] = p.reach(ctx)
		})
	}
	group.Wait()
	for i, p := range places {
		who := strings.Join(p.users, ", ")
		switch {
		case errs[i] == nil:
			x.ok(p.check, "%s answers (%s)", p.address, who)
		case p.check == checkTargets:
			x.warn(p.check, "check the target's url; what is to be sent is tried again for three days", "%s does not answer (%s): %s", p.address, who, dialReason(errs[i]))
		default:
			x.problem(p.check, "check the tool's url, the name service and the firewall; jobs wait until it answers", "%s does not answer (%s): %s", p.address, who, dialReason(errs[i]))
		}
	}
}

func (x *examination) origins() []*origin {
	var all []*origin
	add := func(check, user, raw string) {
		u, err := url.Parse(raw)
		if raw == "" || err != nil || u.Host == "" {
			return
		}
		port := u.Port()
		if port == "" {
			port = u.Scheme // "http" and "https" are names of ports
		}
		p := &origin{secure: u.Scheme == "https", address: net.JoinHostPort(u.Hostname(), port), check: check}
		i := slices.IndexFunc(all, func(o *origin) bool { return o.address == p.address && o.secure == p.secure && o.check == check })
		if i < 0 {
			all, i = append(all, p), len(all)
		}
		if !slices.Contains(all[i].users, user) {
			all[i].users = append(all[i].users, user)
		}
	}
	for _, t := range x.cfg.Tools {
		if h := t.HTTP; h != nil {
			for _, raw := range []string{h.URL, h.FindURL, h.StatusURL, h.CancelURL, h.ListURL} {
				add(checkServices, "tool "+t.Name, raw)
			}
		}
	}
	for _, t := range x.cfg.Targets {
		add(checkTargets, "target "+t.Name, t.URL)
		add(checkTargets, "target "+t.Name, t.AskURL)
	}
	return all
}

// reach connects, with https up to the certificate.
func (o *origin) reach(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	var (
		conn net.Conn
		err  error
	)
	if o.secure {
		conn, err = (&tls.Dialer{}).DialContext(ctx, "tcp", o.address)
	} else {
		conn, err = (&net.Dialer{}).DialContext(ctx, "tcp", o.address)
	}
	if err != nil {
		return err
	}
	return conn.Close()
}

// dialReason says shortly why a host was not reached.
func dialReason(err error) string {
	var (
		name  *net.DNSError
		op    *net.OpError
		timed interface{ Timeout() bool }
	)
	switch {
	case errors.As(err, &name) && name.IsNotFound:
		return "its name is not known"
	case errors.As(err, &timed) && timed.Timeout():
		return "no answer within " + config.FormatDuration(lookTimeout)
	case errors.As(err, &name):
		return "its name cannot be looked up: " + name.Err
	case errors.As(err, &op):
		return op.Err.Error()
	}
	return err.Error()
}
