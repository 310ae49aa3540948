// TypeScript 5.9 has no types for WebGPU: unchecked declarations of the parts that `webgpu.js`
// uses.
type GPUBufferBindingType = string;
type GPUDevice = any;
type GPUCanvasContext = any;
type GPUComputePipeline = any;
type GPURenderPipeline = any;
type GPUBindGroup = any;
type GPUBuffer = any;
type GPUCommandEncoder = any;
type GPUComputePassEncoder = any;
declare const GPUBufferUsage: Record<string, number>;
declare const GPUMapMode: Record<string, number>;
interface Navigator {
  gpu?: any;
}
