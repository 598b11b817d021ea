-- A record of runs as the first version of its tables was: no labels, nothing to search in.
PRAGMA application_id = 1802724207;
PRAGMA user_version = 1;
BEGIN TRANSACTION;
CREATE TABLE categories (
        phase_id TEXT REFERENCES phases(id) ON DELETE CASCADE, category TEXT, family TEXT,
        kernels_per_step FLOAT, kernel_ms FLOAT, share FLOAT,
        PRIMARY KEY (phase_id, category)
    );
INSERT INTO "categories" VALUES('0123456789abcdef-rank0-decode','gemm','matmul',257.0,13.0,0.88);
CREATE TABLE kernels (
        id TEXT PRIMARY KEY, phase_id TEXT REFERENCES phases(id) ON DELETE CASCADE,
        name TEXT, short_name TEXT, category TEXT, family TEXT, rule_id TEXT, method TEXT,
        pair TEXT, kernels_per_step FLOAT, kernel_ms FLOAT, share FLOAT, longest_ms FLOAT
    );
CREATE TABLE phases (
        id TEXT PRIMARY KEY, run_id TEXT REFERENCES runs(id) ON DELETE CASCADE,
        rank INTEGER, phase TEXT, batch INTEGER,
        steps INTEGER, incomplete_steps INTEGER, excluded_steps INTEGER,
        requests_per_step_median FLOAT, requests_per_step_min INTEGER,
        requests_per_step_max INTEGER,
        kernels_per_step_median FLOAT, kernels_per_step_min INTEGER, kernels_per_step_max INTEGER,
        wall_ms_median FLOAT, wall_ms_p10 FLOAT, wall_ms_p90 FLOAT, wall_ms_min FLOAT,
        wall_ms_max FLOAT,
        span_ms FLOAT, kernel_ms FLOAT, busy_ms FLOAT, idle_ms FLOAT,
        idle_inside_replay_ms FLOAT, idle_for_cpu_ms FLOAT, idle_between_launches_ms FLOAT,
        overlap_ms FLOAT, gap_ms FLOAT, launch_calls_per_step FLOAT,
        graph_launches_per_step FLOAT, tokens_per_s FLOAT, prompt_tokens_per_s FLOAT,
        opaque_share FLOAT
    );
INSERT INTO "phases" VALUES('0123456789abcdef-rank0-decode','0123456789abcdef',0,'decode',NULL,31,NULL,NULL,NULL,NULL,NULL,1023.0,NULL,NULL,15.4,NULL,NULL,NULL,NULL,NULL,14.8,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
CREATE TABLE runs (
        number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE,
        captured_at TEXT, recorded_at TEXT, trace TEXT, gpus TEXT, processes TEXT, ranks INTEGER,
        exporter TEXT, graph_trace TEXT, derived_from TEXT, step_method TEXT, step_evidence TEXT,
        kernelscope_version TEXT, rules_version TEXT, warnings TEXT, content TEXT
    );
INSERT INTO "runs" VALUES(1,'0123456789abcdef',NULL,'2026-11-30T08:00:00+00:00','monday.sqlite','NVIDIA H200',NULL,1,NULL,NULL,NULL,NULL,NULL,'0.1.0','2026.11.1','[]','');
CREATE TABLE steps (
        run_id TEXT REFERENCES runs(id) ON DELETE CASCADE, rank INTEGER, step INTEGER,
        phase TEXT, status TEXT, label TEXT,
        context_requests INTEGER, context_tokens INTEGER,
        generation_requests INTEGER, generation_tokens INTEGER,
        start_ms FLOAT, wall_ms FLOAT, span_ms FLOAT, kernel_ms FLOAT, busy_ms FLOAT,
        idle_ms FLOAT, kernels INTEGER, graph_launches INTEGER, launch_calls INTEGER,
        PRIMARY KEY (run_id, rank, step)
    );
INSERT INTO "steps" VALUES('0123456789abcdef',0,1,'decode','complete',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
CREATE INDEX phases_run_id ON phases(run_id);
CREATE INDEX categories_category ON categories(category);
CREATE INDEX kernels_phase_id ON kernels(phase_id);
COMMIT;
