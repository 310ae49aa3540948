//! Creates and drops tensors, in the shapes of another library's performance tests. Checks results and constant memory
//! use. `dapple bench ops --suite performance` measures the time.

#![allow(clippy::unwrap_used, reason = "tests")]

use crate::support;

use dapple_runtime::wgpu;
use dapple_tensor::layers::{Linear, Lora, LoraOptions};
use dapple_tensor::optimizer::Adam;
use dapple_tensor::{Context, DType, Device, Plan, PlanOptions, Tensor};
use support::gradients::{case, check};
use support::{bits, close, contexts, numbers, wide};

/// Returns the bytes that the pool has handed out; 0 on the CPU.
fn live(context: &Context) -> u64 {
    match context.device() {
        Device::Gpu(gpu) => gpu.pool().stats().live_bytes,
        Device::Cpu => 0,
    }
}

#[test]
fn tensors_that_are_dropped_leave_no_memory() {
    for context in contexts() {
        let before = live(&context);
        for count in [100, 1_000, 10_000] {
            let data = numbers(count as u64, count);
            for _ in 0..100 {
                let tensor = context.tensor(&[count], &data);
                tensor.check().unwrap();
            }
            let last = context.tensor(&[count], &data);
            assert_eq!(bits(&last.read().unwrap()), bits(&data));
        }
        assert_eq!(live(&context), before, "{context:?}");
    }
}

#[test]
fn a_hundred_tensors_at_one_time_keep_their_own_values() {
    for context in contexts() {
        let before = live(&context);
        let all: Vec<Tensor> = (0..100)
            .map(|i| context.tensor(&[10_000], &vec![i as f32; 10_000]))
            .collect();
        let sums: Vec<Tensor> = all.iter().map(Tensor::sum).collect();
        let plan = Plan::compile(&sums.iter().collect::<Vec<_>>()).unwrap();
        plan.run().unwrap();
        for i in 0..100 {
            assert_eq!(plan.read(i).unwrap(), [i as f32 * 10_000.0]);
        }
        drop((all, sums, plan));
        assert_eq!(live(&context), before, "{context:?}");
    }
}

#[test]
fn ten_thousand_steps_hold_and_make_no_more_than_the_first() {
    for context in contexts() {
        let x = context.tensor(&[64], &numbers(1, 64));
        let step = [(x.clone(), x.mul(0.999).add(1e-4))];
        let options = PlanOptions {
            updates: &step,
            ..PlanOptions::default()
        };
        let plan = Plan::compile_with(&[], &options).unwrap();
        plan.run().unwrap();
        let made = || match context.device() {
            Device::Gpu(gpu) => {
                gpu.wait().unwrap();
                let counters = gpu.counters();
                (counters.buffers_created, counters.bindings_created)
            }
            Device::Cpu => (0, 0),
        };
        let before = (live(&context), made());
        for step in 0..10_000 {
            plan.run().unwrap();
            if step % 500 == 499 {
                assert_eq!((live(&context), made()), before, "{context:?}, step {step}");
            }
        }
        // The value remains 0.1 for every initial value.
        for value in x.read().unwrap() {
            assert!((value - 0.1).abs() < 1e-3, "{value}");
        }
    }
}

#[test]
fn batches_of_images_and_of_samples_are_right() {
    for context in contexts() {
        for shape in [[8, 3, 224, 224], [32, 3, 128, 128], [64, 3, 64, 64]] {
            let data = numbers(3, shape.iter().product());
            let y = context.tensor(&shape, &data).mul(2.0).relu();
            let expected: Vec<f64> = data.iter().map(|x| f64::from(2.0 * x).max(0.0)).collect();
            assert_eq!(y.shape(), shape);
            close("images", &y.read().unwrap(), &expected, 0.0);
        }
        let layer = Linear::new(&context, 128, 128, 1);
        let weight = wide(&layer.weight.read().unwrap());
        for batch in [16, 64, 256] {
            let data = numbers(batch as u64, batch * 128);
            let y = layer.forward(&context.tensor(&[batch, 128], &data)).relu();
            let dot = |i: usize| -> f64 {
                let (row, column) = (i / 128, i % 128);
                let terms =
                    (0..128).map(|k| f64::from(data[row * 128 + k]) * weight[k * 128 + column]);
                terms.sum::<f64>().max(0.0)
            };
            let expected: Vec<f64> = (0..batch * 128).map(dot).collect();
            close("samples", &y.read().unwrap(), &expected, 1e-5);
        }
    }
}

/// Returns losses of some steps of LoRA with AdamW, and the trained values.
fn trained(context: &Context) -> (Vec<f32>, Vec<Vec<f32>>) {
    let (rows, d) = (32, 64);
    let base = Linear::new(context, d, d, 1);
    let lora = Lora::new(context, d, d, &LoraOptions::default()).unwrap();
    let x = context.tensor(&[4, 8, d], &numbers(1, rows * d));
    let mut wanted = vec![0.0; rows * d];
    (0..rows).for_each(|row| wanted[row * d + row * 37 % d] = 1.0);
    let wanted = context.tensor(&[4, 8, d], &wanted);
    let loss = lora.forward(&base, &x, None).cross_entropy(&wanted);
    let parameters = lora.parameters();
    let adam = Adam {
        learning_rate: 0.02,
        weight_decay: 0.01,
        ..Adam::default()
    };
    let state = adam.state(context, &parameters);
    let gradients = loss.gradients(&parameters);
    let updates = adam.step(&state, &parameters, &gradients);
    let options = PlanOptions {
        updates: &updates,
        ..PlanOptions::default()
    };
    let plan = Plan::compile_with(&[&loss], &options).unwrap();
    let losses = (0..30).map(|_| {
        plan.run().unwrap();
        plan.read(0).unwrap()[0]
    });
    let losses = losses.collect();
    (
        losses,
        parameters.iter().map(|p| p.read().unwrap()).collect(),
    )
}

#[test]
fn a_training_step_learns_and_repeats_itself() {
    for context in contexts() {
        let (losses, learned) = trained(&context);
        assert!(losses[29] < 0.5 * losses[0], "{losses:?}");
        let (again, same) = trained(&context);
        assert_eq!(bits(&losses), bits(&again), "{context:?}");
        for (a, b) in learned.iter().zip(&same) {
            assert_eq!(bits(a), bits(b), "{context:?}");
        }
    }
}

/// Enough indices to be sorted: one row occurs many times, one never, and some indices are beyond the last row.
#[test]
fn gradients_of_large_tables_are_sums_in_order() {
    let (rows, width, count) = (3001, 3, 2500);
    let ids: Vec<u32> = (0..count as u32)
        .map(|i| match i % 5 {
            0 => 7,
            1 => 3000 + i,
            _ => i.wrapping_mul(2_654_435_761) % 3000,
        })
        .collect();
    let g = numbers(5, count * width);
    let mut expected = vec![0.0_f32; rows * width];
    for (place, id) in ids.iter().enumerate() {
        for column in 0..width {
            if let Some(sum) = expected.get_mut(*id as usize * width + column) {
                *sum += g[place * width + column];
            }
        }
    }
    for context in contexts() {
        let table = context.zeros(DType::F32, &[rows, width]);
        let ids = context.indices(&[count], &ids);
        let seed = context.tensor(&[count, width], &g);
        let gradient = table.embedding(&ids).gradients_from(&seed, &[&table]);
        let plan = Plan::compile(&[&gradient[0]]).unwrap();
        for _ in 0..2 {
            plan.run().unwrap();
            // Bit-identical: the order of addition is that of the indices.
            assert_eq!(bits(&plan.read(0).unwrap()), bits(&expected), "{context:?}");
        }
        if let Some(recording) = plan.recording() {
            assert!(recording.len() > 2, "sorted");
        }
    }
}

#[test]
fn cross_entropy_refuses_other_shapes() {
    let context = Context::cpu();
    let x = context.zeros(DType::F32, &[2, 3]).named("logits");
    let error = x
        .cross_entropy(&context.zeros(DType::F32, &[3]))
        .read()
        .unwrap_err();
    assert!(error.to_string().contains("logits"), "{error}");
    // For n equally likely classes: log n.
    let wanted = context.tensor(&[2, 3], &[1.0, 0.0, 0.0, 0.0, 0.0, 1.0]);
    close(
        "even",
        &[x.cross_entropy(&wanted).item().unwrap()],
        &[3.0_f64.ln()],
        1e-6,
    );
}

/// Another program writes a buffer, a plan reads it and writes another buffer that the program reads: no copy, no wait.
#[test]
fn buffers_are_shared_with_a_program_of_ones_own() {
    let Some(gpu) = support::gpu() else { return };
    let context = Context::gpu(&gpu);
    let pooled = [
        gpu.buffer("theirs", 1024).unwrap(),
        gpu.buffer("ours", 1024).unwrap(),
    ];
    let raw: Vec<&wgpu::Buffer> = pooled.iter().map(|buffer| &***buffer).collect();
    let device = gpu.device();
    let module = device.create_shader_module(wgpu::ShaderModuleDescriptor {
        label: None,
        source: wgpu::ShaderSource::Wgsl(
            "@group(0) @binding(0) var<storage, read_write> values: array<f32>;
             @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3u) {
                 values[id.x] = f32(id.x) - 100.0;
             }"
            .into(),
        ),
    });
    let pipeline = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
        label: None,
        layout: None,
        module: &module,
        entry_point: Some("main"),
        compilation_options: wgpu::PipelineCompilationOptions::default(),
        cache: None,
    });
    let group = device.create_bind_group(&wgpu::BindGroupDescriptor {
        label: None,
        layout: &pipeline.get_bind_group_layout(0),
        entries: &[wgpu::BindGroupEntry {
            binding: 0,
            resource: raw[0].as_entire_binding(),
        }],
    });
    let x = context.external(DType::F32, &[256], raw[0], &pooled[0]);
    let y = context.external(DType::F32, &[256], raw[1], &pooled[1]);
    let updates = [(y.clone(), x.mul(2.0).relu())];
    let options = PlanOptions {
        updates: &updates,
        ..PlanOptions::default()
    };
    let plan = Plan::compile_with(&[], &options).unwrap();
    assert_eq!(
        (plan.work().copies, plan.work().buffers),
        (0, 0),
        "{}",
        plan.explain()
    );
    let before = gpu.counters();
    let mut encoder = gpu.encoder();
    {
        let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
        pass.set_pipeline(&pipeline);
        pass.set_bind_group(0, &group, &[]);
        pass.dispatch_workgroups(4, 1, 1);
    }
    plan.recording().unwrap().encode(&mut encoder, &[]);
    gpu.submit(encoder);
    let asked = gpu.counters() - before;
    assert_eq!((asked.submissions, asked.waits, asked.copies), (1, 0, 0));
    let found: Vec<f32> = gpu.read(raw[1], 256).unwrap();
    for (i, value) in found.iter().enumerate() {
        assert_eq!(*value, (2.0 * (i as f32 - 100.0)).max(0.0));
    }
}

#[test]
fn cross_entropy_has_the_gradients_of_its_formula() {
    let formula = |x: &[Vec<f64>]| {
        let rows = x[0].chunks(5).zip(x[1].chunks(5));
        let of = |(x, wanted): (&[f64], &[f64])| -> f64 {
            let size = x.iter().map(|x| x.exp()).sum::<f64>().ln();
            x.iter().zip(wanted).map(|(x, w)| -w * (x - size)).sum()
        };
        vec![rows.map(of).sum::<f64>() / 4.0]
    };
    for context in contexts() {
        let graph = |x: &[Tensor]| x[0].cross_entropy(&x[1]);
        check(
            &context,
            &case(
                "cross_entropy",
                &[&[4, 5], &[4, 5]],
                [0.1, 2.0],
                graph,
                formula,
            ),
        );
    }
}
