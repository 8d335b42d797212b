//! The tables about one program: what of ROCm it would load, and how what it does on GPUs would be recorded.

use std::path::Path;

use anyhow::{Result, anyhow};
use rsys_config::{GpuLevel, GpuSource, Settings};
use rsys_machine::rocm::{Environment, Kind, Library, Program};
use rsys_machine::roots::Roots;
use rsys_wire::gpu::{self, Hip, Recorder};
use rsys_wire::handshake;
use rsys_wire::release::{self, Release};

use super::installed;
use crate::table::{Cell, Column, Table};

/// The libraries that a program would load, and who would record what.
pub fn tables(roots: &Roots, settings: &Settings, program: &Path) -> Result<Vec<Table>> {
    let environment = Environment::of_this_process();
    let program = Program::look_at(roots, &environment, program)
        .map_err(|error| anyhow!("{}: {error}", program.display()))?;
    Ok(vec![libraries(&program), sources(&program, settings)])
}

fn libraries(program: &Program) -> Table {
    let mut table = Table {
        name: "libraries",
        title: "What it would load of ROCm",
        columns: ["name", "version", "rocm", "path", "found_by"]
            .map(|id| Column::new(id, true))
            .to_vec(),
        ..Table::default()
    };
    for (library, way) in &program.libraries {
        let mut row = installed::cells(library);
        row.push(Cell::text(way.clone()));
        table.rows.push(row);
    }
    let path = program.path.display();
    if let Some(torch) = &program.torch {
        let torch = torch.display();
        table.notes.push(format!(
            "As after 'import torch' in {path}, which finds {torch}."
        ));
        if program.library(Kind::Hip).is_none() {
            table
                .notes
                .push(format!("The PyTorch in {torch} is not made for ROCm."));
        }
    } else if program.is_python {
        table.notes.push(format!("{path} finds no PyTorch."));
    }
    for (name, by) in &program.missing {
        table.notes.push(format!(
            "{name}, which {by} needs, is not found: the program does not start, or cannot use its GPU."
        ));
    }
    if let Some(script) = &program.script
        && !program.is_python
    {
        table.notes.push(format!(
            "{} is a script for {path}: name the program that it starts.",
            script.display()
        ));
    } else if table.rows.is_empty() && program.missing.is_empty() && !program.is_python {
        table
            .notes
            .push(format!("{path} itself asks for none of ROCm's libraries."));
    }
    // Only files are read: what a running program opens by name is not in them.
    table.notes.push(
        "Libraries that a program opens while it runs are not seen here, except by 'import torch'."
            .to_owned(),
    );
    table
}

/// Who would record what of a program.
pub fn sources(program: &Program, settings: &Settings) -> Table {
    let mut table = Table {
        name: "sources",
        title: "How it would be recorded",
        columns: ["name", "source", "reason", "limits"]
            .map(|id| Column::new(id, true))
            .to_vec(),
        ..Table::default()
    };
    if program.is_dynamic {
        table.notes.push(
        "With the options -I that are named; kernels and copies with -I roctracer, -I hsa or -I rocm."
            .to_owned(),
    );
    }
    let mut row = |name: &str, source: &str, reason: &str, limits: Vec<&str>| {
        table.rows.push(vec![
            Cell::text(name),
            Cell::text(source),
            Cell::text(reason),
            Cell::list(limits),
        ]);
    };
    if !program.is_dynamic {
        row(
            "all",
            "none",
            "a static program: rsys cannot be loaded into it",
            Vec::new(),
        );
        return table;
    }
    let hip = program.library(Kind::Hip);
    let hsa = program.library(Kind::Hsa);
    let choice = choice(settings, hip);
    match (choice.recorder, hsa) {
        _ if hip.is_none() && hsa.is_none() => row(
            "kernels and copies",
            "none",
            "neither HIP nor the HSA runtime is loaded",
            Vec::new(),
        ),
        (Recorder::Hip, _) => row("kernels and copies", "HIP", choice.why, of_hip(hip)),
        (Recorder::Hsa, hsa) => row("kernels and copies", "HSA", choice.why, of_hsa(hsa)),
        (Recorder::Nobody, _) => row("kernels and copies", "none", choice.why, Vec::new()),
    }
    match hip {
        Some(hip) if hip.has_tracer => {
            row("calls of HIP", "HIP", "-I roctracer, -I rocm", Vec::new())
        }
        Some(_) => row(
            "calls of HIP",
            "wrappers",
            "this HIP has no place for a tracer",
            vec![
                "calls of functions that the program finds with dlsym in HIP's own handle are not seen",
            ],
        ),
        None => {}
    }
    if let Some(hsa) = hsa {
        let limits = if hsa.registers {
            vec![
                "this runtime skips HSA_TOOLS_LIB where another tool registers; rsys-sample sets HSA_TOOLS_ROCPROFILER_V1_TOOLS=1 against that",
            ]
        } else {
            Vec::new()
        };
        row("calls of HSA", "HSA", "-I hsa", limits);
    }
    if program.library(Kind::Rccl).is_some() {
        row("calls of RCCL", "wrappers", "-I rcclp, -I rocm", Vec::new());
    }
    if program.library(Kind::Roctx).is_some() {
        row(
            "ranges of roctx",
            "wrappers",
            "-I roctx, -I rocm",
            Vec::new(),
        );
    }
    table
}

/// Who would record kernels and copies where this HIP is loaded, or none.
pub fn choice(settings: &Settings, hip: Option<&Library>) -> gpu::Choice {
    let resolved = settings.resolve();
    gpu::choose(
        wish(resolved.gpu_source),
        level(resolved.gpu_level),
        match hip {
            None => Hip::Absent,
            Some(hip) if hip.has_tracer => Hip::Ready,
            Some(_) => Hip::Mute,
        },
    )
}

fn of_hip(hip: Option<&Library>) -> Vec<&'static str> {
    let version = hip.map_or("", |hip| hip.version.as_str());
    let major: Option<u32> = version.split('.').next().and_then(|text| text.parse().ok());
    match major {
        Some(5) => vec!["HIP reports operations when the program waits for the GPU"],
        Some(_) => vec!["HIP reports operations in lumps, a moment after they are over"],
        None => Vec::new(),
    }
}

fn of_hsa(hsa: Option<&Library>) -> Vec<&'static str> {
    let Some(hsa) = hsa else {
        return Vec::new();
    };
    let release = hsa.rocm.as_deref().and_then(release_of);
    match hsa.interface() {
        Some(number) if release::breaks_when_full(number) => {
            vec!["queues are made large, and who fills one waits"]
        }
        Some(number) if release::interface_may_break(number, release) => {
            vec!["queues are made large and shown 128 packets at a time"]
        }
        Some(_) => Vec::new(),
        None => vec!["which HSA runtime this is, its file does not tell: rsys looks when it runs"],
    }
}

fn release_of(text: &str) -> Option<Release> {
    let mut numbers = text.split(|sign: char| !sign.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

fn wish(source: GpuSource) -> handshake::GpuSource {
    match source {
        GpuSource::Auto => handshake::GpuSource::Auto,
        GpuSource::Hip => handshake::GpuSource::Hip,
        GpuSource::HipProfiler => handshake::GpuSource::HipProfiler,
        GpuSource::Hsa => handshake::GpuSource::Hsa,
        GpuSource::Off => handshake::GpuSource::Off,
    }
}

fn level(level: GpuLevel) -> handshake::GpuLevel {
    match level {
        GpuLevel::Lite => handshake::GpuLevel::Lite,
        GpuLevel::Standard => handshake::GpuLevel::Standard,
        GpuLevel::Full => handshake::GpuLevel::Full,
    }
}
