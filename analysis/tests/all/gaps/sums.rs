//! Causes add up to the idle time, whatever came in which order, and whatever was forgotten on the way.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// GPU, start, duration, and whether its call is known.
type Drawn = (usize, u64, u64, bool);

fn batch(model: &mut Model, drawn: &[Drawn], samples: &[(u64, u64)]) -> Batch {
    let mut batch = Batch::default();
    let activities = [
        Activity::Compute,
        Activity::Comm,
        Activity::Copy,
        Activity::None,
    ];
    for (number, &(device, start_ns, duration_ns, is_known)) in (1..).zip(drawn) {
        let mut record = gpu(device, start_ns, start_ns + duration_ns, number);
        record.activity = activities[number as usize % activities.len()];
        batch.gpu.push(record);
        if is_known {
            let submitted = start_ns.saturating_sub(number % 50);
            let name = ["hipLaunchKernel", "hipMemcpy"][number as usize % 2];
            batch
                .host
                .push(call(model, name, submitted, submitted + number % 9, number));
        }
    }
    let place = stack(model, "work", "work.c", 3);
    batch
        .samples
        .extend(samples.iter().map(|&(time_ns, weight)| Sample {
            time_ns,
            weight,
            stack: place,
            basis: if weight % 2 == 0 {
                Basis::CpuTime
            } else {
                Basis::WaitTime
            },
            ..Sample::default()
        }));
    batch
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn causes_add_up_to_the_idle_time_in_any_order(
        drawn in vec((0_usize..2, 0_u64..2_000, 0_u64..60, any::<bool>()), 1..40),
        samples in vec((0_u64..2_000, 1_u64..100), 0..20),
    ) {
        let mut model = model();
        let mut batch = batch(&mut model, &drawn, &samples);
        let found = gaps(&model, &batch);
        let timeline = answer(&mut Timeline::default(), &model, &batch);
        let (of_gaps, of_timeline) = (&found["runs"][0]["devices"], &timeline["runs"][0]["devices"]);
        for device in of_gaps.as_array().into_iter().flatten() {
            let same = of_timeline.as_array().into_iter().flatten().find(|other| other["device"] == device["device"]);
            prop_assert_eq!(&device["idle_ns"], &same.map_or(Value::Null, |other| other["idle_ns"].clone()));
            let sum: u64 = device["causes"].as_array().into_iter().flatten().filter_map(|cause| cause["idle_ns"].as_u64()).sum();
            prop_assert_eq!(Some(sum), device["idle_ns"].as_u64());
        }
        batch.gpu.reverse();
        batch.host.reverse();
        batch.samples.reverse();
        prop_assert_eq!(gaps(&model, &batch), found);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn what_is_forgotten_is_not_asked_for(
        drawn in vec((0_usize..2, 0_u64..30, 0_u64..60, 0_u64..200), 1..150),
        waits in vec((0_u64..3_000, 1_u64..300), 0..20),
        part in 1_usize..7,
    ) {
        // Operations that follow one another, most of them overlapping, each told within some hundred nanoseconds of its call.
        let mut model = model();
        let places = ["load", "work", "save"].map(|name| stack(&mut model, name, "work.c", 3));
        let mut all = Vec::new();
        let mut now_ns = 1_000;
        for (number, &(device, pause_ns, duration_ns, delay_ns)) in (1..).zip(&drawn) {
            now_ns += pause_ns;
            let submitted_ns = now_ns.saturating_sub(delay_ns);
            let mut batch = Batch::default();
            batch.gpu.push(gpu(device, now_ns, now_ns + duration_ns, number));
            batch.host.push(call(&mut model, "hipLaunchKernel", submitted_ns, submitted_ns + 9, number));
            let sample = |time_ns, basis| Sample {
                time_ns,
                weight: 7,
                stack: places[number as usize % 3],
                basis,
                ..Sample::default()
            };
            batch.samples.push(sample(submitted_ns + 4, Basis::CallTime));
            batch.samples.push(sample(now_ns, Basis::GpuTime));
            batch.samples.push(sample(now_ns + 3, Basis::CpuTime));
            all.push(batch);
        }
        // Waits with their samples, told when they end.
        for &(start_ns, length_ns) in &waits {
            let end_ns = start_ns + length_ns;
            let place = all.partition_point(|batch| batch.gpu[0].start_ns < end_ns);
            let Some(batch) = all.get_mut(place) else { continue };
            let wait = call(&mut model, "futex", start_ns, end_ns, 0);
            batch.host.push(HostSlice { kind: HostKind::Wait, ..wait });
            batch.samples.push(Sample {
                time_ns: end_ns,
                weight: length_ns,
                stack: places[2],
                basis: Basis::WaitTime,
                ..Sample::default()
            });
        }
        let asked = |mut gaps: Gaps| {
            for batch in all.chunks(part) {
                batch.iter().for_each(|batch| gaps.take(batch));
                if gaps.is_full() {
                    gaps.settle(&model);
                }
            }
            show::json(&gaps.answer(&model, "run"))
        };
        // Before the first operation of a GPU that comes later, something is forgotten, and that is said.
        let without_outside = |mut value: Value| {
            for device in value["runs"][0]["devices"].as_array_mut().into_iter().flatten() {
                device["outside"] = Value::Null;
            }
            value
        };
        let expected = without_outside(asked(Gaps::default()));
        // With many rows little is left to explain at the end, with few almost all.
        for rows in [20, 60, 150] {
            prop_assert_eq!(&without_outside(asked(Gaps::bounded(rows, 700))), &expected, "{} rows", rows);
        }
    }
}
